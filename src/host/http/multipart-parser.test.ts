import { expect, test } from "vitest";
import { parseMultipart } from "./multipart-parser.ts";

const TEXT =
  '--b\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n--b\r\nContent-Type: x/y\r\n\r\nhello world\r\n--b--';

async function* pieces(text: string, failure?: Error): AsyncIterable<Uint8Array> {
  if (text !== "") yield Buffer.from(text);
  if (failure !== undefined) throw failure;
}

async function read(chunks: AsyncIterable<Uint8Array>): Promise<string[]> {
  const bodies: string[] = [];
  for await (const { body } of parseMultipart(chunks, "b")) {
    let text = "";
    for await (const chunk of body) text += Buffer.from(chunk).toString();
    bodies.push(text);
  }
  return bodies;
}

test("parts come whole and in order", async () => {
  expect(await read(pieces(TEXT))).toEqual(['{"a":1}', "hello world"]);
});

test.each([0, 3, 20, 45, 50, 60, 80, TEXT.length - 3])(
  "a body that ends after %i bytes is an error, not a shorter list",
  async (length) => {
    const reading = read(pieces(TEXT.slice(0, length)));
    await expect(reading).rejects.toMatchObject({ code: "PROTOCOL_BAD_INPUT" });
  },
);

test.each([0, 3, 20, 45, 50, 60, 80, TEXT.length - 3])(
  "a source that breaks off after %i bytes fails whoever reads",
  async (length) => {
    const failure = new Error("The connection was reset");
    await expect(read(pieces(TEXT.slice(0, length), failure))).rejects.toThrow(failure);
  },
);
