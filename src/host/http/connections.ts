/**
 * Connections of clients to a node: how many there are, and which may stay. A connection that does not move is closed:
 * one without a request, and one whose body stalls. Feeds, answers that are being made and slow bodies that move stay.
 *
 * A part of the process's file handles is left to replication and the store. When the rest is taken, a new connection
 * takes the place of the oldest one that waits for a request, among those of the address that has most of these, so that
 * a flood displaces itself. Otherwise it takes that of the slowest unfinished body. If there is
 * neither, it gets one of the reserved places: its requests are marked, and the API answers server administrators only.
 */
import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import { clientNetwork } from "../../base/index.ts";

/** Time for the headers of a request, for a TLS handshake, and between two pieces of a body. */
const STALL_MS = 60_000;
/** Part of the file handles that connections of clients may take. */
const HANDLES_PART = 0.6;
/** Places for administrators. */
const RESERVED_COUNT = 32;
/** Handles assumed where the limit cannot be read. */
const HANDLES_FALLBACK = 65_536;

interface Connection {
  socket: Socket;
  readonly openedAtMs: number;
  /** Address of the client, or its network. */
  readonly client: string;
  readonly isReserved: boolean;
  /** The request that is not answered yet. */
  request: IncomingMessage | undefined;
  response: ServerResponse | undefined;
}

export interface ConnectionLimits {
  /** Connections of everyone; administrators have `reservedCount` more. */
  readonly connectionsMax: number;
  readonly reservedCount: number;
  readonly stallMs: number;
}

export function connectionLimits(handlesMax = fileHandlesMax()): ConnectionLimits {
  const connectionsMax = Math.max(1, Math.floor(handlesMax * HANDLES_PART) - RESERVED_COUNT);
  return { connectionsMax, reservedCount: RESERVED_COUNT, stallMs: STALL_MS };
}

/** Returns how many files the process may open. Linux only; elsewhere a guess. */
function fileHandlesMax(): number {
  try {
    const [, soft] =
      /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? HANDLES_FALLBACK : Number(soft);
  } catch {
    return HANDLES_FALLBACK;
  }
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #bySocket = new WeakMap<Socket, Connection>();
  /** Those without a request. */
  readonly #waiting = new WaitingConnections();
  readonly #working = new Set<Connection>();

  constructor(limits = connectionLimits()) {
    this.#limits = limits;
  }

  get stallMs(): number {
    return this.#limits.stallMs;
  }

  /** Follows the connections of a server; several servers share the limits. */
  follow(server: Server | TlsServer): void {
    server.on("connection", (socket: Socket) => this.#open(socket));
    server.timeout = this.#limits.stallMs;
    server.on("timeout", (socket: Socket) => this.#stalled(socket));
    if (!("setSecureContext" in server)) return;
    // The HTTP server knows the socket above TLS, which has the same address.
    const handshakes = new Map<string, Connection>();
    server.on("connection", (socket: Socket) => {
      const connection = this.#bySocket.get(socket);
      if (connection === undefined) return;
      const key = addressOf(socket);
      handshakes.set(key, connection);
      socket.once("close", () => handshakes.delete(key));
    });
    server.on("secureConnection", (socket: Socket) => {
      const connection = handshakes.get(addressOf(socket));
      if (connection === undefined) return;
      connection.socket = socket;
      this.#bySocket.set(socket, connection);
    });
  }

  /** Notes that a request is being answered; returns whether its connection has one of the reserved places. */
  begin(request: IncomingMessage, response: ServerResponse): boolean {
    const connection = this.#bySocket.get(request.socket);
    if (connection === undefined) return false;
    connection.request = request;
    connection.response = response;
    this.#waiting.delete(connection);
    this.#working.add(connection);
    response.once("close", () => {
      if (connection.request !== request) return;
      connection.request = undefined;
      connection.response = undefined;
      if (this.#working.delete(connection)) this.#waiting.add(connection);
    });
    return connection.isReserved;
  }

  get #count(): number {
    return this.#waiting.size + this.#working.size;
  }

  #open(socket: Socket): void {
    const { connectionsMax, reservedCount } = this.#limits;
    const isReserved = this.#count >= connectionsMax && !this.#makeRoom();
    if (isReserved && this.#count >= connectionsMax + reservedCount) {
      socket.destroy();
      return;
    }
    const connection: Connection = {
      socket,
      openedAtMs: performance.now(),
      client: clientNetwork(socket.remoteAddress ?? ""),
      isReserved,
      request: undefined,
      response: undefined,
    };
    this.#waiting.add(connection);
    this.#bySocket.set(socket, connection);
    socket.once("close", () => {
      this.#waiting.delete(connection);
      this.#working.delete(connection);
    });
  }

  /** Closes a connection that can be spared; false if all are being answered. */
  #makeRoom(): boolean {
    const spared = this.#waiting.mostDispensable ?? this.#slowestBody();
    if (spared === undefined) return false;
    this.#waiting.delete(spared);
    this.#working.delete(spared);
    spared.socket.destroy();
    return true;
  }

  #slowestBody(): Connection | undefined {
    const nowMs = performance.now();
    let slowest: { readonly connection: Connection; readonly rate: number } | undefined;
    for (const connection of this.#working) {
      if (!isWaitingForBody(connection)) continue;
      const rate = connection.socket.bytesRead / (nowMs - connection.openedAtMs + 1);
      if (slowest === undefined || rate < slowest.rate) slowest = { connection, rate };
    }
    return slowest?.connection;
  }

  /** Neither side has sent anything for a while. */
  #stalled(socket: Socket): void {
    const connection = this.#bySocket.get(socket);
    if (connection?.request === undefined) {
      socket.destroy();
    } else if (isWaitingForBody(connection)) {
      if (connection.response?.headersSent === false) socket.write(TIMED_OUT);
      socket.destroySoon();
    } else socket.setTimeout(this.#limits.stallMs);
  }
}

/** Connections without a request, by the address of their client. */
class WaitingConnections {
  /** The oldest of each address first. */
  readonly #byAddress = new Map<string, Set<Connection>>();
  /** Addresses by the number of their connections. */
  readonly #byCount = new Map<number, Set<string>>();
  #largest = 0;
  size = 0;

  /** The oldest connection of an address that has most of them. */
  get mostDispensable(): Connection | undefined {
    const [address = ""] = this.#byCount.get(this.#largest) ?? [];
    const [oldest] = this.#byAddress.get(address) ?? [];
    return oldest;
  }

  add(connection: Connection): void {
    const all = this.#byAddress.get(connection.client) ?? new Set();
    if (all.has(connection)) return;
    this.#byAddress.set(connection.client, all.add(connection));
    this.#recount(connection.client, all.size - 1, all.size);
    this.size++;
  }

  delete(connection: Connection): boolean {
    const all = this.#byAddress.get(connection.client);
    if (all?.delete(connection) !== true) return false;
    if (all.size === 0) this.#byAddress.delete(connection.client);
    this.#recount(connection.client, all.size + 1, all.size);
    this.size--;
    return true;
  }

  #recount(address: string, before: number, after: number): void {
    const alike = this.#byCount.get(before);
    alike?.delete(address);
    if (alike?.size === 0) this.#byCount.delete(before);
    if (after > 0) this.#byCount.set(after, (this.#byCount.get(after) ?? new Set()).add(address));
    this.#largest = Math.max(this.#largest, after);
    // The largest changes by one at a time.
    if (this.#largest > 0 && !this.#byCount.has(this.#largest)) this.#largest--;
  }
}

const TIMED_OUT = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/** Whether the client has not sent the whole body, and all that it sent was read. */
function isWaitingForBody({ request }: Connection): boolean {
  return request !== undefined && !request.complete && request.readableLength === 0;
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
