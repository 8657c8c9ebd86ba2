/** Attachment digests sent by sources: digests of another algorithm, and wrong digests. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ProxiedAnswer, ProxiedRequest } from "../support/faults/http-proxy.ts";
import { documents, openPair, type Pair } from "./pair.fixture.ts";

let pair: Pair;
/** Functions that modify the source's responses, keyed by database name. */
const changes = new Map<string, (answer: string, request: ProxiedRequest) => string>();

beforeAll(async () => {
  pair = await openPair();
  pair.source.intercept(async (request, forward) => {
    const change = changes.get(request.path.split("/")[1] ?? "");
    const answer: ProxiedAnswer = await forward(request);
    const isRead = /_bulk_get|open_revs/.test(request.path);
    if (change === undefined || !isRead) return answer;
    const text = Buffer.from(answer.body as Buffer).toString("latin1");
    return { ...answer, body: Buffer.from(change(text, request), "latin1") };
  });
});
afterAll(() => pair.close());

const DIGEST = /"digest":"md5-[^"]*"/g;
const WRONG = '"digest":"md5-AAAAAAAAAAAAAAAAAAAAAA=="';
/** Returns a function that replaces all digests of one document in a response. */
function inDocument(id: string, digest: string): (answer: string) => string {
  return (answer) =>
    answer
      .split(/(?=\{"_id":")/)
      .map((part) => (part.startsWith(`{"_id":"${id}"`) ? part.replace(DIGEST, digest) : part))
      .join("");
}

const SIZES = { small: 10, large: 200_000 } as const;
const TARGETS = { "over there": false, "of its own": true } as const;

describe.each(Object.entries(SIZES))("%s attachments", (size, length) => {
  const attached = {
    _attachments: { note: { content_type: "image/png", data: btoa("n".repeat(length)) } },
  };

  describe.each(Object.entries(TARGETS))("to a target %s", (place, isLocal) => {
    const nameOf = (what: string): string => `${what}-${size}-${place.replaceAll(" ", "-")}`;
    const replicate = async (database: string, more: object = {}) => {
      const target = isLocal ? { target: `copy-of-${database}`, create_target: true } : {};
      return pair.replicate(database, { ...target, ...more });
    };
    const arrived = async (database: string): Promise<string[]> => {
      if (!isLocal) return pair.ids(database);
      const { body } = await pair.here.call("GET", `/copy-of-${database}/_all_docs`);
      return body.rows.map(({ id }: { id: string }) => id);
    };

    test.each(["sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "", "x", "MD5-AAAA", null, 5, {}])(
      "arrive even if the source sends the digest %j",
      async (digest) => {
        const shown = JSON.stringify(digest);
        const database = nameOf(`other${Buffer.from(shown).toString("hex").slice(0, 12)}`);
        await pair.fill(database, documents(5, attached));
        changes.set(database, (answer) => answer.replace(DIGEST, `"digest":${shown}`));
        const { body } = await replicate(database);
        expect(body).toMatchObject({ ok: true, history: [{ doc_write_failures: 0 }] });
        expect(await arrived(database)).toHaveLength(5);
      },
    );

    test.each([true, false])(
      "with a wrong MD5 digest cause a failure of their document only (bulk reads: %j)",
      async (useBulkGet) => {
        const database = nameOf(`wrong-${useBulkGet}`);
        await pair.fill(database, documents(5, attached));
        changes.set(database, inDocument("doc-3", WRONG));
        const { body } = await replicate(database, { use_bulk_get: useBulkGet });
        expect(body).toMatchObject({
          ok: true,
          history: [{ docs_written: 4, doc_write_failures: 1 }],
        });
        expect(await arrived(database)).toEqual(["doc-0", "doc-1", "doc-2", "doc-4"]);
        expect(await pair.failures(database)).toEqual([
          expect.stringMatching(/^doc-3: 400 content_md5_mismatch: /),
        ]);
      },
    );
  });
});
