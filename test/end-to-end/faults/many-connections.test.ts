/**
 * More clients connect concurrently than a process accepts in one turn of its event loop. Linux
 * only: it reads /proc.
 */
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, expect, test } from "vitest";
import { Processes } from "../../support/open-process.ts";

const CLIENT_COUNT = 2_000;
const SYSTEM_LIMIT = "/proc/sys/net/core/somaxconn";
const isLimitSufficient =
  existsSync(SYSTEM_LIMIT) && Number(readFileSync(SYSTEM_LIMIT, "utf8")) >= CLIENT_COUNT;

const processes = new Processes();
const sockets: Socket[] = [];
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await processes.close();
});

test.skipIf(!isLimitSufficient)(
  "2,000 clients that connect while the node is busy are all accepted",
  async () => {
    const node = await processes.open({ environment: { TANDEM_LOG_LEVEL: "error" } });
    node.child.kill("SIGSTOP");
    try {
      const connected = Array.from({ length: CLIENT_COUNT }, () => {
        const socket = connect({ port: node.port, host: "127.0.0.1" });
        sockets.push(socket);
        return once(socket, "connect");
      });
      // If the accept queue were too short, some connections would not be established before the
      // process resumes.
      expect(await Promise.all(connected)).toHaveLength(CLIENT_COUNT);
    } finally {
      node.child.kill("SIGCONT");
    }
    expect((await node.call("GET", "/_up")).status).toBe(200);
  },
);
