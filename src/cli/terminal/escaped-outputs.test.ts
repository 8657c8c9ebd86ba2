import fc from "fast-check";
import { expect, test } from "vitest";
import { escapeOutputs } from "./escaped-outputs.ts";

function open() {
  const written: unknown[] = [];
  const output = { write: (chunk: unknown) => written.push(chunk) > 0 };
  escapeOutputs([output as never]);
  return { output: output as { write(chunk: unknown): boolean }, written };
}

test.each([
  ["\u001b[2J", "\\u001b[2J"],
  ["\u009b31m", "\\u009b31m"],
  ["\u0007\u0008\r\u007f", "\\u0007\\u0008\\u000d\\u007f"],
  ["\u202eabc\u2066\u200f", "\\u202eabc\\u2066\\u200f"],
  ["a\tb\nc \u{1f600} \u00e9\n", "a\tb\nc \u{1f600} \u00e9\n"],
])("%j is written as %s", (text, shown) => {
  const { output, written } = open();
  output.write(text);
  expect(written).toEqual([shown]);
});

test("JSON keeps its value, and contains no control characters", () => {
  fc.assert(
    fc.property(fc.json({ stringUnit: "binary" }), (text) => {
      const { output, written } = open();
      output.write(text);
      expect(JSON.parse(String(written[0]))).toEqual(JSON.parse(text));
      expect(String(written[0])).not.toMatch(/[\u007f-\u009f\u202a-\u202e]/);
    }),
  );
});

test("bytes are written unchanged", () => {
  const { output, written } = open();
  const bytes = Buffer.from("\r\u001b[2K");
  output.write(bytes);
  expect(written).toEqual([bytes]);
});
