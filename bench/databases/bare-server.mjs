/**
 * Baseline of `peers.mjs`: a server that shows the limit of Node.js. It discards uploads, parses
 * JSON, and answers a GET from memory with the number of bytes that the path contains.
 */
import { createServer } from "node:http";
import { portOf } from "../support/port-of.mjs";

const blocks = new Map();

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) {
    if (request.headers["content-type"] === "application/json") chunks.push(chunk);
  }
  if (chunks.length > 0) JSON.parse(Buffer.concat(chunks).toString());
  const byteCount = request.method === "GET" ? Number(/[0-9]+$/.exec(request.url)?.[0] ?? 2) : 2;
  if (!blocks.has(byteCount)) blocks.set(byteCount, Buffer.alloc(byteCount, 0x20));
  response.end(blocks.get(byteCount));
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${portOf(server)}\n`);
});
