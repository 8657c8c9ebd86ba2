/** `CONNECT` is answered like other methods, although Node.js reports it as a separate event. */
import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { openServer, readConfig } from "../../src/server/index.ts";

async function ask(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  socket.write(text);
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk;
  });
  await once(socket, "close");
  return answer;
}

test.each([
  ["/", 405, "method_not_allowed"],
  ["/films", 405, "method_not_allowed"],
  ["/films/_index/a", 404, "not_found"],
])(
  "CONNECT %s gets status %i, and the server closes the connection",
  async (path, status, error) => {
    const server = await openServer(readConfig({ port: 0, store: "memory" }, {}), { event() {} });
    try {
      const { port } = new URL(server.url as string);
      const answer = await ask(Number(port), `CONNECT ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(answer).toContain(error);
      expect(answer).toMatch(/^Connection: close/im);
    } finally {
      await server.stop();
    }
  },
);

test("a client that keeps its side of the connection open after CONNECT does not keep the server's side open", async () => {
  const server = await openServer(readConfig({ port: 0, store: "memory" }, {}), { event() {} });
  try {
    const port = Number(new URL(server.url as string).port);
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => {});
    socket.write("CONNECT / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    await once(socket.resume(), "end");
    // Repeats writes until one fails. A write fails only if the server has closed the connection.
    while (!socket.destroyed) await new Promise((resolve) => socket.write("x", resolve));
  } finally {
    await server.stop();
  }
});
