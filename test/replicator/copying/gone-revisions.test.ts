/**
 * Retries of failed revisions that the source does not deliver, either because they are gone or
 * because of a problem of the source.
 */
import { describe, expect, test } from "vitest";
import { type Endpoint, EndpointError, TextDocument } from "../../../src/replicator/index.ts";
import { openCopier, openEndpoint, overriding } from "./endpoint.fixture.ts";

const FOREVER = new AbortController().signal;
const GONE = { id: "film", revision: "2-gone" };

function film(...hashes: string[]): TextDocument {
  const revisions = { start: hashes.length, ids: hashes };
  const named = { _id: GONE.id, _rev: `${hashes.length}-${hashes[0]}`, _revisions: revisions };
  return new TextDocument(GONE.id, JSON.stringify(named));
}

async function openSource(
  place: "local" | "own API",
  documents: readonly TextDocument[],
): Promise<Endpoint> {
  const source = await openEndpoint(place);
  await source.create({}, FOREVER);
  expect(await source.writer.writeDocuments(documents, FOREVER)).toEqual([]);
  return source;
}

/**
 * Records `2-gone` as failed, retries it, and returns the remaining entries of the failure list.
 */
async function leftAfterRetry(source: Endpoint): Promise<string[]> {
  const target = await openEndpoint("local");
  await target.create({}, FOREVER);
  const { copier, failures } = openCopier({ source, target });
  const refused = { status: 403, error: "forbidden", reason: "not this one" };
  await failures.record([{ ...GONE, ...refused, phase: "write" }], []);
  await copier.retry([{ id: GONE.id, revisions: [GONE.revision] }], FOREVER);
  return failures.failures.map(({ revision, error }) => `${revision} ${error}`);
}

describe.each(["local", "own API"] as const)("with a source of the kind %s", (place) => {
  test.each([
    ["the document is gone", []],
    ["only an earlier leaf exists", [film("a")]],
    ["a conflicting leaf exists", [film("b", "a")]],
    ["a later leaf of another branch exists", [film("c", "b", "a")]],
  ])("a retried revision is removed from the failure list when %s", async (_, documents) => {
    expect(await leftAfterRetry(await openSource(place, documents))).toEqual([]);
  });
});

const withheld = ({ reader }: Endpoint): Partial<Endpoint> => ({
  reader: overriding(reader, {
    readRevisions: async (requests) => requests.map(() => ({ kind: "separately" })),
    readRevision: async ({ id, ...request }, consume, signal) =>
      id !== GONE.id && (await reader.readRevision({ id, ...request }, consume, signal)),
  }),
});
const broken = (): never => {
  throw new EndpointError("changes_req_failed", "503");
};

test.each<[string, TextDocument[], (source: Endpoint) => Partial<Endpoint>]>([
  ["announces the revision but does not deliver it", [film("gone", "a")], withheld],
  ["announces a later revision but delivers neither", [film("c", "gone", "a")], withheld],
  ["cannot report its revisions", [], () => ({ changes: broken })],
])("a revision stays on the failure list if its source %s", async (_, documents, faulty) => {
  const source = await openSource("local", documents);
  const left = await leftAfterRetry(overriding(source, faulty(source)));
  expect(left).toEqual(["2-gone not_found"]);
});

test("documents stay on the failure list if the source database is gone", async () => {
  const source = await openEndpoint("local");
  const reader = overriding(source.reader, { readRevision: async () => false });
  const retried = leftAfterRetry(overriding(source, { reader }));
  await expect(retried).rejects.toMatchObject({ error: "db_not_found" });
});

test("a revision that the source does not return is added to the failure list", async () => {
  const [source, target] = [await openSource("local", []), await openSource("local", [])];
  const { copier, failures } = openCopier({ source, target });
  await copier.copy([{ id: GONE.id, revisions: [GONE.revision] }], FOREVER);
  expect(failures.failures).toMatchObject([{ ...GONE, phase: "read", error: "not_found" }]);
});
