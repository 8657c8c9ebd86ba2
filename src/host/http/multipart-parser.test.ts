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

test("parts arrive complete and in order", async () => {
  expect(await read(pieces(TEXT))).toEqual(['{"a":1}', "hello world"]);
});

test("parts can have no headers and no body", async () => {
  const text = "--b\r\n\r\nplain\r\n--b\r\nX-Y: z\r\n\r\n\r\n--b\r\n\r\nlast\r\n--b--";
  expect(await read(pieces(text))).toEqual(["plain", "", "last"]);
});

test("a part that ends within its headers is an error", async () => {
  const text = "--b\r\nX-Y: z\r\n--b\r\n\r\nlast\r\n--b--";
  await expect(read(pieces(text))).rejects.toMatchObject({ code: "PROTOCOL_BAD_INPUT" });
});

test.each([0, 3, 20, 45, 50, 60, 80, TEXT.length - 3])(
  "a body that ends after %i bytes is an error, and not treated as complete",
  async (length) => {
    const reading = read(pieces(TEXT.slice(0, length)));
    await expect(reading).rejects.toMatchObject({ code: "PROTOCOL_BAD_INPUT" });
  },
);

test.each([0, 3, 20, 45, 50, 60, 80, TEXT.length - 3])(
  "a source that fails after %i bytes fails the reader",
  async (length) => {
    const failure = new Error("The connection was reset");
    await expect(read(pieces(TEXT.slice(0, length), failure))).rejects.toThrow(failure);
  },
);

test.each(["", "x".repeat(201), "x".repeat(253), "x".repeat(500), "\u00e9".repeat(101)])(
  "a boundary that is empty or too long is a client error: %j",
  async (boundary) => {
    const parts = parseMultipart(pieces(TEXT), boundary)[Symbol.asyncIterator]();
    await expect(parts.next()).rejects.toMatchObject({ status: 400, error: "bad_request" });
  },
);

test("a boundary of 200 bytes is accepted", async () => {
  const boundary = "x".repeat(200);
  const parts = parseMultipart(pieces(`--${boundary}\r\n\r\na\r\n--${boundary}--`), boundary);
  expect((await parts[Symbol.asyncIterator]().next()).done).toBe(false);
});

async function* endless(start: string, filler: string): AsyncIterable<Uint8Array> {
  yield Buffer.from(start);
  const piece = Buffer.from(filler.repeat(65_536 / filler.length));
  for (;;) yield piece;
}

test.each([
  ["no part", "x"],
  ["no end of a part's headers", "--b\r\na: b\r\n"],
])("reading a body with %s fails", async (_, start) => {
  const reading = read(endless(start, "c: d\r\n  "));
  await expect(reading).rejects.toMatchObject({ code: "PROTOCOL_BAD_INPUT" });
});

test("the length of a part is unlimited", async () => {
  const length = 40 * 1024 * 1024;
  const long = async function* () {
    yield Buffer.from("--b\r\n\r\n");
    for (let sent = 0; sent < length; sent += 65_536) yield Buffer.alloc(65_536, 0x61);
    yield Buffer.from("\r\n--b--");
  };
  let count = 0;
  for await (const { body } of parseMultipart(long(), "b")) {
    for await (const chunk of body) count += chunk.length;
  }
  expect(count).toBe(length);
});
