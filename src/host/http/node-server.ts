/** Serves an `Api` over HTTP (node:http) and TLS (node:https). */
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import type { Api, ApiRequest, ApiResponse } from "../../api/index.ts";
import { ServerStoppingError, type Trace } from "../../base/index.ts";
import { parseQuery } from "../../protocol/index.ts";
import { certificateDepth } from "./certificate-depth.ts";
import { Connections } from "./connections.ts";

/**
 * Maximum length of the headers including the URL, which may contain long `startkey`, `open_revs`
 * and `atts_since` parameters. Node's default is 16 KiB.
 */
const HEADER_BYTES_MAX = 65_536;

/**
 * Length of the accept queue, capped by Linux to `net.core.somaxconn`. On overflow, Linux drops the
 * handshake's last packet, and the client's request may be delayed by up to a minute.
 */
const BACKLOG_CONNECTIONS = 4096;

/** Grace period for responses in progress when the server stops. */
const CLOSE_MS_MAX = 3000;

export interface NodeServerOptions {
  readonly port: number;
  readonly bindAddress: string;
  readonly api: Api;
  readonly trace: Trace;
  /**
   * Connection limits. Several servers of a process can share them. Default: a separate instance.
   */
  readonly connections?: Connections;
}

export interface NodeServer {
  /** The actual port, even if port 0 was requested. */
  readonly port: number;
  /** Stops accepting connections, ends feeds and waits for responses in progress. */
  close(): Promise<void>;
}

/** Server certificates and TLS protocol options. */
export type ServerCertificates = Pick<
  SecureContextOptions,
  "cert" | "key" | "passphrase" | "ca" | "minVersion" | "maxVersion" | "ciphers"
>;

export interface TlsServerOptions extends NodeServerOptions {
  readonly certificates: ServerCertificates;
  /** Requirements for client certificates; undefined if none are requested. */
  readonly clients: ClientCertificateRules | undefined;
}

export interface ClientCertificateRules {
  /**
   * Whether a client without a certificate is rejected. A client with an invalid certificate is
   * always rejected.
   */
  readonly areRequired: boolean;
  /** Maximum number of intermediate certificates. */
  readonly depthMax: number;
}

export interface TlsNodeServer extends NodeServer {
  /**
   * Uses the certificates for new connections. Throws if they are inconsistent; the previous
   * certificates then stay in use.
   */
  useCertificates(certificates: ServerCertificates): void;
}

const SERVER_OPTIONS = {
  maxHeaderSize: HEADER_BYTES_MAX,
  keepAliveTimeout: 90_000,
  // Only headers have a total time limit; `Connections` applies a stall timeout to bodies.
  requestTimeout: 0,
};

/** Number of checks for overdue headers per stall timeout. */
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
      // With `true`, Node.js would reject clients without a certificate. `mayCome` decides instead.
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

/** Whether the client's certificate, or the lack of one, is acceptable. */
function mayCome(socket: TLSSocket, { areRequired, depthMax }: ClientCertificateRules): boolean {
  const certificate = socket.getPeerCertificate(true);
  // For a client without a certificate, Node.js returns an empty object, contrary to the declared
  // type.
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
  // The HTTP server does not track connections during the TLS handshake, so they are tracked here.
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
        // A client that does not read its response must not delay the shutdown.
        setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, CLOSE_MS_MAX).unref();
      }),
  };
}

/**
 * Responds to `CONNECT` as to other methods; by default, Node.js closes the connection. The HTTP
 * server no longer manages the socket, so both directions are closed here.
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
 * Requests in progress, each with a signal that aborts when its client disconnects or the server
 * stops. Avoids `AbortSignal.any`, whose registrations on the server's signal survive
 * young-generation collections and retain 4 KB per request.
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
      if (!outgoing.writableFinished) controller.abort(new Error("The client has disconnected"));
    });
    return controller.signal;
  }

  /** Aborts all requests, including requests that begin later. */
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
        ? QUERY_UNREADABLE
        : await api(request);
  // Closing the connection after the response frees the reserved slot for the next administrator.
  if (isReserved) outgoing.shouldKeepAlive = false;
  await send(response, incoming, outgoing);
  // A stopping server does not wait for more requests on a keep-alive connection.
  if (signal.aborted) incoming.socket.end();
}

function badRequest(reason: string): ApiResponse {
  return {
    status: 400,
    headers: { "Content-Type": "application/json" },
    body: `${JSON.stringify({ error: "bad_request", reason })}\n`,
  };
}

/** Response to a request whose query string cannot be decoded. */
export const QUERY_UNREADABLE = badRequest("The query string is not UTF-8 encoded");

/**
 * Headers that a request is allowed to repeat: lists; headers that proxies append to; and headers
 * without an effect on responses.
 */
const REPEATABLE_HEADERS: ReadonlySet<string> = new Set([
  ...["accept", "accept-charset", "accept-encoding", "accept-language", "cookie"],
  ...["cache-control", "connection", "expect", "pragma", "te", "trailer", "upgrade"],
  ...["if-match", "if-none-match", "forwarded", "via", "warning", "baggage", "tracestate"],
  ...["x-forwarded-for", "x-forwarded-port", "x-real-ip"],
]);

/**
 * Returns the name of a single-value header that occurs twice, if any. Duplicates are a security
 * risk, because a proxy and this server could use different ones, for example of `Host`,
 * `Authorization` or the header in which a proxy names the user. Some clients send `Content-Type`
 * twice with the same value, which is unambiguous.
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

/** Converts a request. Returns `undefined` if the query string is not UTF-8. */
function requestOf(
  incoming: IncomingMessage,
  { signal, isReserved }: Arrival,
): ApiRequest | undefined {
  const { target, host } = originForm(incoming.url ?? "/");
  const question = target.indexOf("?");
  const path = question < 0 ? target : target.slice(0, question);
  const parsed = parseQuery(question < 0 ? "" : target.slice(question + 1));
  if (parsed === undefined) return undefined;
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  if (host !== undefined) headers.set("host", host);
  return {
    method: incoming.method ?? "GET",
    path,
    ...parsed,
    headers,
    body: incoming,
    peer: incoming.socket.remoteAddress ?? "",
    isSecure: "encrypted" in incoming.socket,
    isReserved,
    signal,
  };
}

/** Absolute-form target (`GET http://host/films HTTP/1.1`); overrides `Host` (RFC 9112). */
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
  // On a reused connection, the unread rest of the body would be parsed as the next request.
  if (!incoming.complete) outgoing.shouldKeepAlive = false;
  outgoing.statusCode = status;
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    const bodiless = status === 204 || status === 304 || incoming.method === "HEAD";
    if (!bodiless) outgoing.setHeader("Content-Length", Buffer.byteLength(body ?? ""));
    // Node.js sends the headers and this body in one packet.
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

/** Combines the writes of one event-loop turn, so that a short response is one packet. */
class GatheredWrites {
  readonly #outgoing: ServerResponse;
  /**
   * The corked socket. The response itself is not corked, because this can suppress its `drain`
   * event in Node.js 22.
   */
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
    // The response's `end` has already uncorked the socket.
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
