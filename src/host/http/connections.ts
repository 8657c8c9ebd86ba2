/**
 * Limits the clients' connections. Idle connections and stalled request bodies are closed; feeds,
 * pending responses and slow bodies that make progress are kept open.
 *
 * Some file descriptors are reserved for replication and the store. When all other descriptors are
 * in use, a new connection displaces an idle connection: the oldest one of the address that has the
 * most idle connections. A flood from one address therefore displaces connections of this address.
 * If there is no idle connection, the new connection displaces the connection with the slowest
 * incomplete body. Otherwise the new connection uses a reserved slot: its requests are marked, and
 * only server administrators are served.
 */
import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import { clientNetwork } from "../../base/index.ts";

/** Timeout for request headers, for a TLS handshake, and between two chunks of a body. */
const STALL_MS = 60_000;
/** Maximum share of the file descriptors that clients' connections can use. */
const HANDLES_PART = 0.6;
/** Number of connections reserved for administrators. */
const RESERVED_COUNT = 32;
/** Descriptor limit assumed if the limit of the system cannot be read. */
const HANDLES_FALLBACK = 65_536;

interface Connection {
  socket: Socket;
  readonly openedAtMs: number;
  /** IPv4 address or IPv6 network of the client. */
  readonly client: string;
  readonly isReserved: boolean;
  /** The unanswered request, if any. */
  request: IncomingMessage | undefined;
  response: ServerResponse | undefined;
}

export interface ConnectionLimits {
  /** Maximum number of connections of all clients; administrators may use `reservedCount` more. */
  readonly connectionsMax: number;
  readonly reservedCount: number;
  readonly stallMs: number;
}

function connectionLimits(): ConnectionLimits {
  const connectionsMax = Math.max(1, Math.floor(fileHandlesMax() * HANDLES_PART) - RESERVED_COUNT);
  return { connectionsMax, reservedCount: RESERVED_COUNT, stallMs: STALL_MS };
}

/** Returns the process's limit of open files. On systems other than Linux, returns a default. */
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
  /** Idle connections. */
  readonly #waiting = new WaitingConnections();
  readonly #working = new Set<Connection>();

  constructor(limits = connectionLimits()) {
    this.#limits = limits;
  }

  get stallMs(): number {
    return this.#limits.stallMs;
  }

  /** Tracks the connections of a server. Several servers share the limits. */
  follow(server: Server | TlsServer): void {
    server.on("connection", (socket: Socket) => this.#open(socket));
    server.timeout = this.#limits.stallMs;
    server.on("timeout", (socket: Socket) => this.#stalled(socket));
    if (!("setSecureContext" in server)) return;
    // By remote address and port. The TLS socket, which the HTTP server sees, and the TCP socket
    // have the same address and port.
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

  /** Records a request in progress. Returns whether its connection uses a reserved slot. */
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

  /**
   * Closes the most dispensable connection. Returns false if no connection can be closed, because
   * all are waiting for responses.
   */
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

  /** Handles a socket on which neither side has sent data within the timeout. */
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

/** Idle connections, by client address. */
class WaitingConnections {
  /** Connections of each address, oldest first. */
  readonly #byAddress = new Map<string, Set<Connection>>();
  /** Addresses by their number of connections. */
  readonly #byCount = new Map<number, Set<string>>();
  #largest = 0;
  size = 0;

  /** The oldest connection of the address that has the most connections. */
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
    // Decrementing once is enough, because removing a connection lowers only one address's count,
    // by one.
    if (this.#largest > 0 && !this.#byCount.has(this.#largest)) this.#largest--;
  }
}

const TIMED_OUT = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/** Whether the request body is incomplete, and all received data has been read. */
function isWaitingForBody({ request }: Connection): boolean {
  return request !== undefined && !request.complete && request.readableLength === 0;
}

function addressOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
