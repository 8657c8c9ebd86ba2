/** A byte stream as lines of text: the changes feed and everything else that CouchDB writes row by row. */
import { concatBytes, utf8Decode } from "../base/index.ts";

const NEWLINE = 0x0a;

/**
 * Yields, for each chunk that completes at least one line, the lines in it, without their ends; empty lines, which are
 * heartbeats, included. What stands behind the last newline comes at the end.
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncIterable<string[]> {
  let pending: Uint8Array[] = [];
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(NEWLINE);
    if (end < 0) {
      pending.push(chunk);
      continue;
    }
    const text = utf8Decode(concatBytes([...pending, chunk.subarray(0, end)]));
    pending = [chunk.subarray(end + 1)];
    yield text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  }
  const rest = utf8Decode(concatBytes(pending));
  if (rest !== "") yield [rest];
}
