import { EventEmitter } from "node:events";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { Connections } from "./connections.ts";

/**
 * Opens a connection for each client, without waiting until displaced sockets have closed. Returns
 * for each client whether its connection remains open.
 */
function connect(connectionsMax: number, clients: readonly string[]): readonly boolean[] {
  const limits = { connectionsMax, reservedCount: 1, stallMs: 1_000 };
  const server = new EventEmitter() as Server;
  new Connections(limits).follow(server);
  const destroyed = new Set<Socket>();
  const sockets = clients.map((remoteAddress) => {
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress,
      destroy: () => destroyed.add(socket as unknown as Socket),
    }) as unknown as Socket;
    return socket;
  });
  for (const socket of sockets) server.emit("connection", socket);
  return sockets.map((socket) => !destroyed.has(socket));
}

test("each new connection displaces another one, even if displaced ones have not closed yet", () => {
  expect(connect(2, ["::1", "::1", "::1", "::1", "::1"])).toEqual([
    false,
    false,
    false,
    true,
    true,
  ]);
});

test("a flood from one address displaces its own connections", () => {
  const flood = Array(4).fill("10.0.0.2");
  expect(connect(3, ["10.0.0.1", ...flood])).toEqual([true, false, false, true, true]);
});
