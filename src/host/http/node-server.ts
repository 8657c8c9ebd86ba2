/** Serves an `Api` over HTTP on node:http, and over TLS on node:https. */
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import type { Api, ApiRequest, ApiResponse } from "../../api/index.ts";
import { ServerStoppingError, type Trace } from "../../base/index.ts";
import { parseQuery } from "../../protocol/index.ts";
import { certificateDepth } from "./certificate-depth.ts";
import { Connections } from "./connections.ts";

/** Long `startkey`, `open_revs` and `atts_since` are in request lines; Node's own limit is 16 KiB. */
const HEADER_BYTES_MAX = 65_536;

/**
 * Connections that wait for this process to accept them; Linux takes at most `net.core.somaxconn`. When there are more, it drops the
 * last packet of their handshake: the client believes to be connected, and its request comes again after up to a minute.
 */
const BACKLOG_CONNECTIONS = 4096;

/** How long answers that are under way may take when the server stops. */
const CLOSE_MS_MAX = 3000;

export interface NodeServerOptions {
  readonly port: number;
  readonly bindAddress: string;
  readonly api: Api;
  readonly trace: Trace;
  /** Shared by the servers of a process; of its own if absent. */
  readonly connections?: Connections;
}

export interface NodeServer {
  /** The port that is listened on, also when 0 was asked for. */
  readonly port: number;
  /** Accepts nothing new, ends feeds and waits for the answers that are under way. */
  close(): Promise<void>;
}

/** What a server over TLS proves itself with, and which protocols it speaks. */
export type ServerCertificates = Pick<
  SecureContextOptions,
  "cert" | "key" | "passphrase" | "ca" | "minVersion" | "maxVersion" | "ciphers"
>;

export interface TlsServerOptions extends NodeServerOptions {
  readonly certificates: ServerCertificates;
  /** What clients are to prove themselves with; undefined: they are not asked. */
  readonly clients: ClientCertificateRules | undefined;
}

export interface ClientCertificateRules {
  /** Whether a client without a certificate is refused; one with a wrong certificate always is. */
  readonly areRequired: boolean;
  /** Most certificates between a client's own and a trusted one. */
  readonly depthMax: number;
}

export interface TlsNodeServer extends NodeServer {
  /** For connections from now on. Throws, and changes nothing, when they do not go together. */
  useCertificates(certificates: ServerCertificates): void;
}

const SERVER_OPTIONS = {
  maxHeaderSize: HEADER_BYTES_MAX,
  keepAliveTimeout: 90_000,
  // A body may take any time as long as it moves (`Connections`), the headers may not.
  requestTimeout: 0,
};

/** How often Node looks for headers that are late, as a part of the time that they have. */
const CHECKS_PER_STALL = 12;

function serverOptions({ stallMs }: Connections) {
  const connectionsCheckingInterval = Math.ceil(stallMs / CHECKS_PER_STALL);
  return { ...SERVER_OPTIONS, headersTimeout: stallMs, connectionsCheckingInterval };
}

export async function openNodeServer(options: NodeServerOptions): Promise<NodeServer> {
  const { connections = new Connections() } = options;
  const unanswered = new UnansweredRequests();
  const server = createServer(
    serverOptions(connections),
    listener(options, connections, unanswered),
  );
  connections.follow(server);
  return serve(server, options, unanswered);
}

export async function openTlsServer(options: TlsServerOptions): Promise<TlsNodeServer> {
  const { certificates, clients, connections = new Connections() } = options;
  const unanswered = new UnansweredRequests();
  const server = createTlsServer(
    {
      ...serverOptions(connections),
      ...certificates,
      handshakeTimeout: connections.stallMs,
      requestCert: clients !== undefined,
      // Node refuses clients without a certificate along with those that have a wrong one.
      rejectUnauthorized: false,
    },
    listener(options, connections, unanswered),
  );
  connections.follow(server);
  if (clients !== undefined) {
    server.prependListener("secureConnection", (socket: TLSSocket) => {
      if (!mayCome(socket, clients)) socket.destroy();
    });
  }
  const served = await serve(server, options, unanswered);
  return { ...served, useCertificates: (next) => server.setSecureContext(next) };
}

/** Whether the certificate of a client, or that it has none, is good enough. */
function mayCome(socket: TLSSocket, { areRequired, depthMax }: ClientCertificateRules): boolean {
  const certificate = socket.getPeerCertificate(true);
  // The type says otherwise, but without a certificate there are no members.
  if (certificate?.raw === undefined) return !areRequired;
  return socket.authorized && certificateDepth(certificate) <= depthMax;
}

function listener(
  options: NodeServerOptions,
  connections: Connections,
  unanswered: UnansweredRequests,
) {
  return (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const isReserved = connections.begin(incoming, outgoing);
    const signal = unanswered.begin(outgoing);
    answer(options, { signal, isReserved }, incoming, outgoing).catch((error: unknown) => {
      options.trace.event("http.answer-failed", { error: String(error) });
      outgoing.destroy();
    });
  };
}

async function serve(
  server: Server | TlsServer,
  options: NodeServerOptions,
  unanswered: UnansweredRequests,
): Promise<NodeServer> {
  // Those that have not ended their handshake are none of the HTTP server's connections.
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.on("connect", (incoming: IncomingMessage, socket: Socket) => {
    answerConnect(server, incoming, socket);
  });
  await listen(server, options);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        unanswered.abort(new ServerStoppingError());
        server.close(() => resolve());
        server.closeIdleConnections();
        // A client that does not read its answer must not hold the stop up.
        setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, CLOSE_MS_MAX).unref();
      }),
  };
}

/**
 * Answers `CONNECT` as a method like any other. By default Node.js closes the connection without an
 * answer. Its HTTP server no longer limits this connection, so we end both sides of it.
 */
function answerConnect(
  server: Server | TlsServer,
  incoming: IncomingMessage,
  socket: Socket,
): void {
  const outgoing = new ServerResponse(incoming);
  outgoing.shouldKeepAlive = false;
  outgoing.assignSocket(socket);
  outgoing.once("finish", () => socket.destroySoon());
  socket.on("error", () => socket.destroy());
  server.emit("request", incoming, outgoing);
}

/**
 * The requests that are under way, each with a signal that aborts when its client goes before the end of its answer, or when all are
 * aborted. Not by `AbortSignal.any` of a signal of the client and one of the server: what is registered at a signal that lives
 * long outlives the collections of the young generation, and with it 4 KB of each request.
 */
class UnansweredRequests {
  readonly #controllers = new Set<AbortController>();
  #aborted: { readonly reason: Error } | undefined;

  begin(outgoing: ServerResponse): AbortSignal {
    const controller = new AbortController();
    if (this.#aborted !== undefined) controller.abort(this.#aborted.reason);
    this.#controllers.add(controller);
    outgoing.once("close", () => {
      this.#controllers.delete(controller);
      if (!outgoing.writableFinished) controller.abort(new Error("The client has gone"));
    });
    return controller.signal;
  }

  /** Those that begin later as well. */
  abort(reason: Error): void {
    this.#aborted ??= { reason };
    for (const controller of this.#controllers) controller.abort(reason);
  }
}

function listen(
  server: Server | TlsServer,
  { port, bindAddress }: NodeServerOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host: bindAddress, backlog: BACKLOG_CONNECTIONS }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

async function answer(
  { api }: NodeServerOptions,
  { signal, isReserved }: Arrival,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const repeated = repeatedHeader(incoming.rawHeaders);
  const request = requestOf(incoming, { signal, isReserved });
  const response =
    repeated !== undefined
      ? badRequest(`The header ${JSON.stringify(repeated)} occurs twice`)
      : request === undefined
        ? badRequest("The query is not UTF-8 encoded")
        : await api(request);
  // A reserved place is for the next administrator.
  if (isReserved) outgoing.shouldKeepAlive = false;
  await send(response, incoming, outgoing);
  // A server that stops waits for no further request of a client that keeps its connection.
  if (signal.aborted) incoming.socket.end();
}

function badRequest(reason: string): ApiResponse {
  return {
    status: 400,
    headers: { "Content-Type": "application/json" },
    body: `${JSON.stringify({ error: "bad_request", reason })}\n`,
  };
}

/** Headers that are lists, that proxies append to, or that no answer depends on. */
const REPEATABLE_HEADERS: ReadonlySet<string> = new Set([
  ...["accept", "accept-charset", "accept-encoding", "accept-language", "cookie"],
  ...["cache-control", "connection", "expect", "pragma", "te", "trailer", "upgrade"],
  ...["if-match", "if-none-match", "forwarded", "via", "warning", "baggage", "tracestate"],
  ...["x-forwarded-for", "x-forwarded-port", "x-real-ip"],
]);

/**
 * Returns a header that has one value and occurs twice. A proxy may read the first and this server
 * the second, or both joined: `Host`, `Authorization`, and whatever header the configuration has a
 * proxy name its user in. Some HTTP clients send the same `Content-Type` twice, which everybody
 * reads alike: Node keeps the first.
 */
function repeatedHeader(rawHeaders: readonly string[]): string | undefined {
  const values = new Map<string, string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase();
    const value = rawHeaders[at + 1] as string;
    const first = values.get(name);
    const isSameType = name === "content-type" && first === value;
    if (first !== undefined && !isSameType && !REPEATABLE_HEADERS.has(name)) return name;
    values.set(name, value);
  }
  return undefined;
}

interface Arrival {
  readonly signal: AbortSignal;
  readonly isReserved: boolean;
}

/** The request, or `undefined` if its query is not UTF-8. */
function requestOf(
  incoming: IncomingMessage,
  { signal, isReserved }: Arrival,
): ApiRequest | undefined {
  const { target, host } = originForm(incoming.url ?? "/");
  const question = target.indexOf("?");
  const path = question < 0 ? target : target.slice(0, question);
  const query = parseQuery(question < 0 ? "" : target.slice(question + 1));
  if (query === undefined) return undefined;
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  if (host !== undefined) headers.set("host", host);
  return {
    method: incoming.method ?? "GET",
    path,
    query,
    headers,
    body: incoming,
    peer: incoming.socket.remoteAddress ?? "",
    isSecure: "encrypted" in incoming.socket,
    isReserved,
    signal,
  };
}

/** A target in absolute form (`GET http://host/films HTTP/1.1`), whose host then counts before the header's (RFC 9112). */
const ABSOLUTE_FORM = /^https?:\/\/([^/?]+)(.*)$/is;

function originForm(target: string): { readonly target: string; readonly host?: string } {
  const [, host, rest = ""] = ABSOLUTE_FORM.exec(target) ?? [];
  if (host === undefined) return { target };
  return { target: rest.startsWith("/") ? rest : `/${rest}`, host };
}

async function send(
  { status, headers, body }: ApiResponse,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
  // What the handler left unread would be taken for the next request of this connection.
  if (!incoming.complete) outgoing.shouldKeepAlive = false;
  outgoing.statusCode = status;
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    const bodiless = status === 204 || status === 304 || incoming.method === "HEAD";
    if (!bodiless) outgoing.setHeader("Content-Length", Buffer.byteLength(body ?? ""));
    // Node sends a text in one string with the headers.
    outgoing.end(bodiless ? undefined : body);
    return;
  }
  const writes = new GatheredWrites(outgoing);
  writes.gather();
  outgoing.flushHeaders();
  if (incoming.method === "HEAD") {
    outgoing.end();
    return;
  }
  for await (const piece of body) {
    if (outgoing.destroyed) return;
    writes.gather();
    if (outgoing.write(piece)) continue;
    writes.release();
    await drained(outgoing);
  }
  outgoing.end();
}

/**
 * Has what is written until the event loop comes round go to the socket at once, unless it is enough to be sent before. A short answer is
 * then one packet, for which its client is woken once.
 */
class GatheredWrites {
  readonly #outgoing: ServerResponse;
  /** Corked until it is released. Not the answer itself: in Node.js 22 one that is corked may never say that it can take more. */
  #socket: Socket | null = null;

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing;
  }

  gather(): void {
    if (this.#socket !== null) return;
    this.#socket = this.#outgoing.socket;
    this.#socket?.cork();
    setImmediate(() => this.release());
  }

  release(): void {
    const socket = this.#socket;
    this.#socket = null;
    // The end of an answer sends all that was gathered.
    if (!this.#outgoing.writableEnded) socket?.uncork();
  }
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off("drain", done);
      outgoing.off("close", done);
      resolve();
    };
    outgoing.on("drain", done);
    outgoing.on("close", done);
  });
}
