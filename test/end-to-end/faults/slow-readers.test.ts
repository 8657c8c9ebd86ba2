/**
 * Clients send many requests and read no responses. The node generates only the parts of the
 * responses that sockets accept, so that its memory stays bounded. Linux only: it reads /proc.
 */
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../../support/open-process.ts";

const MEBIBYTE = 1024 * 1024;
const READERS_OF_EACH = 8;
const DOCUMENT_COUNT = 64;
/**
 * Maximum growth of the node's memory. The measured growth is 264 MiB, mostly garbage and pages
 * being sent. Without back-pressure, the growth would be 2,745 MiB.
 */
const ADDED_BYTES_MAX = 800 * MEBIBYTE;

const processes = new Processes();
const sockets: Socket[] = [];
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await processes.close();
});

/** Returns the memory of a process, without mapped files. */
function memoryBytes({ child }: TandemProcess): number {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** Sends a request, and reads only the start of its response. */
async function askAndNotRead({ port }: TandemProcess, path: string): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1" });
  sockets.push(socket);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`);
  await once(socket, "readable");
}

test.skipIf(!existsSync("/proc/self/status"))(
  "clients that do not read their responses cannot exhaust the memory of a node while others write to it",
  async () => {
    const node = await processes.open({ environment: { TANDEM_LOG_LEVEL: "error" } });
    await node.call("PUT", "/films");
    const write = async (batch: string): Promise<void> => {
      for (let number = 0; number < DOCUMENT_COUNT; number++) {
        const body = { text: "x".repeat(MEBIBYTE) };
        expect((await node.call("PUT", `/films/${batch}-${number}`, body)).status).toBe(201);
      }
    };
    await write("first");
    await fetch(`${node.url}/films/reel/reel.bin`, {
      method: "PUT",
      body: new Uint8Array(DOCUMENT_COUNT * MEBIBYTE),
    });
    const paths = [
      "/films/_changes?feed=continuous&include_docs=true&heartbeat=1000",
      "/films/_all_docs?include_docs=true",
      "/films/reel/reel.bin",
    ];
    const before = memoryBytes(node);
    for (const path of paths) {
      for (let count = 0; count < READERS_OF_EACH; count++) await askAndNotRead(node, path);
    }
    await write("second");
    const added = memoryBytes(node) - before;
    expect(added).toBeLessThan(ADDED_BYTES_MAX);
    for (const socket of sockets) socket.destroy();
    expect(await node.stop()).toBe(0);
  },
);
