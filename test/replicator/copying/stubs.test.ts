/** Attachments that a source omits because it assumes that the target has them. */
import { expect, test } from "vitest";
import { TextDocument } from "../../../src/replicator/index.ts";
import { openCopier, openEndpoint, overriding } from "./endpoint.fixture.ts";

const FOREVER = new AbortController().signal;

/**
 * Returns a revision with two attachments: `placed`, whose `revpos` is 1, and `poster`, whose
 * `revpos` is `position`.
 */
function film(hashes: readonly string[], poster: string, position: number): TextDocument {
  const attachment = (bytes: string, revpos: number) => ({
    content_type: "image/png",
    revpos,
    data: Buffer.from(bytes).toString("base64"),
  });
  const document = {
    _id: "film",
    _rev: `${hashes.length}-${hashes[0]}`,
    _revisions: { start: hashes.length, ids: hashes },
    _attachments: { placed: attachment("the same", 1), poster: attachment(poster, position) },
  };
  return new TextDocument("film", JSON.stringify(document));
}

/**
 * Copies the second revision of `film` to a target that has the first revision. Returns the names
 * of the attachments sent.
 */
async function sentWithSecond(place: "local" | "own API", position: number): Promise<string[][]> {
  const [source, target] = [await openEndpoint(place), await openEndpoint("local")];
  for (const endpoint of [source, target]) {
    await endpoint.create({}, FOREVER);
    await endpoint.writer.writeDocuments([film(["a"], "first", Math.min(position, 1))], FOREVER);
  }
  await source.writer.writeDocuments([film(["b", "a"], "second", position)], FOREVER);
  const sent: string[][] = [];
  const writer = overriding(target.writer, {
    writeDocument: (document, signal) => {
      sent.push(document.outline.map(({ name }) => name));
      return target.writer.writeDocument(document, signal);
    },
  });
  const { copier, failures } = openCopier({
    source,
    target: overriding(target, { writer }),
  });
  await copier.copy([{ id: "film", revisions: ["2-b"] }], FOREVER);
  expect(failures.failures).toEqual([]);
  return sent;
}

test("a local database sends an attachment whose revpos is 0 even if the target has the previous revision", async () => {
  expect(await sentWithSecond("local", 0)).toEqual([["poster"]]);
});

test("the copier requests all attachments if a server omits one whose revpos is 0", async () => {
  expect(await sentWithSecond("own API", 0)).toEqual([["placed", "poster"]]);
});

test.each(["local", "own API"] as const)(
  "an attachment is not sent if the target's revision already has it: %s",
  async (place) => {
    expect(await sentWithSecond(place, 2)).toEqual([["poster"]]);
  },
);
