/**
 * A node whose clients open as many connections as they can, and never finish their requests. The
 * test runs only on Linux.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../../support/open-process.ts";

const HANDLES = 1_024;
/**
 * Number of clients. It exceeds the limit of file handles of the node, which therefore cannot keep
 * all of them connected.
 */
const CLIENT_COUNT = 1_500;
const ADMIN = { authorization: `Basic ${Buffer.from("anna:secret").toString("base64")}` };

const processes = new Processes();
const sockets: Socket[] = [];
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await processes.close();
});

async function take({ port }: TandemProcess, text: string): Promise<void> {
  for (let count = 0; count < CLIENT_COUNT; count++) {
    const socket = connect(port, "127.0.0.1");
    sockets.push(socket);
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(text);
  }
}

async function ask(node: TandemProcess, method: string, path: string, body?: object) {
  const headers = { ...ADMIN, "content-type": "application/json", connection: "close" };
  const text = body === undefined ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(`${node.url}${path}`, { method, headers, ...text });
  return { status: answer.status, json: await answer.json() };
}

test.skipIf(process.platform !== "linux").each([
  ["headers", "GET / HTTP/1.1\r\nHost: a\r\nX-Half"],
  ["bodies", "POST /_session HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nname=a"],
])(
  "jobs, status and shutdown work while clients that never finish their %s hold all file handles",
  async (_, text) => {
    const node = await processes.open({ handlesMax: HANDLES, ini: "[admins]\nanna = secret\n" });
    await ask(node, "PUT", "/films");
    await ask(node, "PUT", "/films/a", {});
    await take(node, text);
    expect((await ask(node, "GET", "/_up")).status).toBe(200);
    const url = node.url.replace("//", "//anna:secret@");
    const request = { source: `${url}/films`, target: `${url}/copies`, create_target: true };
    const replicated = await ask(node, "POST", "/_replicate", request);
    expect(replicated).toMatchObject({ status: 200, json: { ok: true } });
    expect((await ask(node, "GET", "/copies/a")).status).toBe(200);
    expect((await ask(node, "GET", "/_tandem/jobs")).status).toBe(200);
    expect(await node.stop()).toBe(0);
  },
);
