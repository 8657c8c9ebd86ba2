import { expect, test } from "vitest";
import { type Random, utf8Decode, utf8Encode } from "../../../base/index.ts";
import { SystemRandom } from "../../../host/system/random.ts";
import type { AttachmentStream, StreamedDocument } from "../endpoint.ts";
import { documentUpload } from "./document-upload.ts";

const random: Random = new SystemRandom();

/**
 * Returns the body of an upload of a document with the attachments `one` and `two`. `order` is the
 * order in which their bytes arrive.
 */
async function uploaded(order: readonly string[]): Promise<string> {
  const outline = ["one", "two"].map((name) => ({
    name,
    length: 3,
    contentType: "text/plain",
    encoding: undefined,
  }));
  const document: StreamedDocument = {
    id: "x",
    text: '{"_id":"x"}',
    hasStubs: false,
    outline,
    attachments: (async function* (): AsyncGenerator<AttachmentStream> {
      for (const name of order) {
        const body = (async function* () {
          yield utf8Encode(name);
        })();
        yield { name, length: 3, contentType: "text/plain", encoding: undefined, body };
      }
    })(),
  };
  const { body } = documentUpload(document, random);
  if (typeof body === "string" || !("stream" in body)) throw new Error("It is not streamed");
  let text = "";
  for await (const piece of body.stream()) text += utf8Decode(piece);
  return text;
}

test("sends attachments after the document, in the order in which the document lists them", async () => {
  expect(await uploaded(["one", "two"])).toMatch(
    /filename="one"\r\n.*?\r\n\r\none\r\n.*filename="two"\r\n.*?\r\n\r\ntwo\r\n/s,
  );
});

test("does not send the bytes of one attachment under the name of another", async () => {
  await expect(uploaded(["two", "one"])).rejects.toMatchObject({
    name: "InvalidDocumentError",
    reason: "The source sent the attachments in a different order than listed in `_attachments`",
  });
});
