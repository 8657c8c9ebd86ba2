import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, utf8Encode } from "../base/index.ts";
import {
  BATCH_BODY_BYTES_MAX,
  BATCH_MESSAGES_MAX,
  type BatchMessage,
  BatchReader,
  batchMessage,
} from "./batch.ts";

const head = fc.dictionary(fc.string(), fc.jsonValue()).map((members) => {
  const { bytes: _, ...others } = members;
  return others;
});
const message = fc.record({ head, body: fc.uint8Array({ maxLength: 300 }) });
const heartbeats = fc.integer({ min: 0, max: 2 }).map((count) => utf8Encode("\n".repeat(count)));

/** Cuts the bytes at the given offsets. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort(
    (left, right) => left - right,
  );
  return ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end));
}

test("messages are decoded unchanged, regardless of how the input is split and when its pieces arrive", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(heartbeats, message), { maxLength: 8 }),
      fc.array(fc.nat()),
      (sent, places) => {
        const reader = new BatchReader();
        const bytes = concatBytes(
          sent.flatMap(([before, { head, body }]) => [before, ...batchMessage(head, body)]),
        );
        const came: BatchMessage[] = [];
        for (const piece of cut(bytes, places)) came.push(...reader.push(piece));
        expect(came).toEqual(
          sent.map(([, { head, body }]) => ({
            head: JSON.parse(JSON.stringify({ ...head, bytes: body.length })),
            body,
          })),
        );
        expect(reader.isWhole).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

test("any input is decoded into messages or refused with a reason", () => {
  const line = fc.oneof(
    fc.string(),
    fc.json(),
    head.map((members) => JSON.stringify(members)),
  );
  const piece = fc.oneof(
    fc.uint8Array(),
    line.map((text) => utf8Encode(`${text}\n`)),
    fc.integer().map((bytes) => utf8Encode(`${JSON.stringify({ bytes })}\n`)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
      const reader = new BatchReader();
      try {
        for (const each of pieces) reader.push(each);
      } catch (error) {
        expect(error).toMatchObject({ status: 400, error: "bad_request" });
      }
    }),
    { numRuns: 500 },
  );
});

test.each([
  ["x\n", "The head of message 0 of the batch must be a JSON object on one line"],
  ["[]\n", "The head of message 0 of the batch must be a JSON object on one line"],
  ["{}\n", "The head of message 0 of the batch must state `bytes`, the length of its body"],
  [
    '{"bytes":0}\n{"bytes":-1}\n',
    "The head of message 1 of the batch must state `bytes`, the length of its body",
  ],
  [
    `{"bytes":${BATCH_BODY_BYTES_MAX + 1}}\n`,
    "The head of message 0 of the batch has more than 262144 `bytes`",
  ],
  [`{"a":"${"x".repeat(65_536)}`, "The head of message 0 of the batch is too long"],
  [`{"a":"${"x".repeat(65_536)}"}\n`, "The head of message 0 of the batch is too long"],
  ['{"bytes":0}\n'.repeat(BATCH_MESSAGES_MAX + 1), "A batch must not have more than 100 messages"],
])("%.20j… is refused", (text, reason) => {
  const pieces = [text.slice(0, 10), text.slice(10)].map(utf8Encode);
  const reader = new BatchReader();
  const read = (): void => {
    for (const piece of pieces) reader.push(piece);
  };
  expect(read).toThrow(expect.objectContaining({ status: 400, reason }));
});

test("a batch that ends within a message is incomplete", () => {
  const reader = new BatchReader();
  expect(reader.isWhole).toBe(true);
  for (const text of ['{"bytes":3}', "\n", "ab"]) {
    expect(reader.push(utf8Encode(text))).toEqual([]);
    expect(reader.isWhole).toBe(false);
  }
  expect(reader.push(utf8Encode("c"))).toHaveLength(1);
  expect(reader.isWhole).toBe(true);
});

test("a body in many small pieces is joined once", () => {
  const reader = new BatchReader();
  const body = new Uint8Array(BATCH_BODY_BYTES_MAX).fill(0x0a);
  const [line, bytes] = batchMessage({}, body) as [Uint8Array, Uint8Array];
  reader.push(line);
  for (let at = 0; at < bytes.length - 1; at++) {
    expect(reader.push(bytes.subarray(at, at + 1)).length).toBe(0);
  }
  expect(reader.push(bytes.subarray(-1))).toEqual([{ head: { bytes: body.length }, body }]);
});
