/**
 * Jobs that fail because of a proxy. They form one group even if they replicate with different
 * servers.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { openUndiciFetch } from "../../src/host/index.ts";
import { parseReplication } from "../../src/replicator/index.ts";
import { closedPort } from "../support/closed-port.ts";
import { openNode } from "../support/open-node.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function refusingProxy(status: number): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end());
  server.on("connect", (_, socket: Socket) => socket.end(`HTTP/1.1 ${status} No\r\n\r\n`));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.each([
  ["refuses connections", "http", "unreachable", "the connection was refused"],
  ["speaks SOCKS and refuses connections", "socks5", "unreachable", "the connection was refused"],
  ["requires credentials", 407, "proxy", "the proxy requires other credentials (407)"],
  ["opens no tunnel", 503, "proxy", "the proxy responded with 503"],
])(
  "failures of requests to all servers are attributed to a proxy that %s",
  async (_, answer, failureClass, words) => {
    const proxyUrl =
      typeof answer === "number"
        ? await refusingProxy(answer)
        : `${answer}://127.0.0.1:${await closedPort()}`;
    const undici = openUndiciFetch();
    closing.push(() => undici.close());
    const node = await openNode({ fetch: undici.fetch });
    await node.kv.transact((tx) => node.databases.create(tx, "d"));
    const options = { continuous: true, retries_per_request: 0 };
    // Over plain HTTP, a 503 can come from the server rather than the proxy, so a 503 is tested
    // only over TLS.
    const schemes = answer === 503 ? ["https"] : ["http", "https"];
    const ids = new Map<string, string[]>([
      ["source", []],
      ["target", []],
    ]);
    for (const scheme of schemes) {
      for (const host of ["a", "b"]) {
        for (const [side, started] of ids) {
          const url = `${scheme}://jan:secret@${host}.invalid/${scheme}`;
          const other =
            side === "source" ? { target: "here", create_target: true } : { source: "d" };
          const body = { ...options, ...other, [side]: url, [`${side}_proxy`]: proxyUrl };
          const requester = { userName: null, isAdmin: true };
          started.push(await node.replicator.start(parseReplication(body), requester));
        }
      }
    }
    node.start();
    for (const jobId of [...ids.values()].flat()) {
      await node.event("replication.ended", (fields) => fields.jobId === jobId);
    }
    const { groups } = await node.replicator.failing.page({ skip: 0, limit: 10 });
    const shown = groups.map(({ side, host, count, ...group }) => ({
      ...{ side, host, count, class: group.class },
      words: group.failing.reason.slice(group.failing.reason.indexOf(": ") + 2),
    }));
    const { host } = new URL(proxyUrl);
    const expected = [...ids].map(([side, { length: count }]) => ({
      ...{ side, host, count, class: failureClass },
      words: `proxy error: ${words}`,
    }));
    expect(shown.toSorted((left, right) => `${left.side}`.localeCompare(`${right.side}`))).toEqual(
      expected,
    );
    await node.stop();
  },
);
