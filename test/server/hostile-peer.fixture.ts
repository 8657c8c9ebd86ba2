/**
 * A server on loopback that acts as source and target. It forwards requests to the real API, and
 * modifies the responses. Each run of a test has its own databases and random stream.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { type OpenApi, openApi, SETTINGS } from "../api/api.fixture.ts";
import { SeededRandom } from "../simulation/kernel/seeded-random.ts";
import { mutated, type PeerAnswer } from "./hostile-answers.ts";

/**
 * Maximum number of hostile responses per run. All later responses are valid, so that the run ends.
 */
const HOSTILE_COUNT_MAX = 150;

export interface HostilePeer {
  readonly api: OpenApi;
  /** Returns the URL at which the run accesses a database. */
  url(run: number, database: string): string;
  /** Returns the bytes of all bodies that were sent to the run. */
  sentTo(run: number): Buffer;
  /** Resolves when the run has sent `count` long polls. */
  polledBy(run: number, count: number): Promise<void>;
  /** Size in bytes of the longest body that any run has read. */
  readonly longestBytes: number;
  close(): Promise<void>;
}

interface Visitor {
  readonly random: SeededRandom;
  readonly ratio: number;
  readonly counts: Map<string, number>;
  readonly sent: Buffer[];
  askedCount: number;
  pollCount: number;
  readonly polled: Polled;
}

export async function openHostilePeer(seed: string): Promise<HostilePeer> {
  const api = await openApi({ parts: { settings: { ...SETTINGS, compressesResponses: false } } });
  const visitors = new Map<number, Visitor>();
  const peer = { longestBytes: 0 };
  const visitorOf = (run: number): Visitor => {
    const known = visitors.get(run);
    if (known !== undefined) return known;
    const random = new SeededRandom(`${seed}/${run}`);
    const ratio = random.pick([0.03, 0.1, 0.3, 0.6]);
    const visitor = {
      random,
      ratio,
      counts: new Map(),
      sent: [],
      askedCount: 0,
      pollCount: 0,
      polled: new Polled(),
    };
    visitors.set(run, visitor);
    return visitor;
  };
  const answer = async (incoming: IncomingMessage): Promise<PeerAnswer> => {
    const { host } = incoming.headers;
    const [, run = "", rest = "/"] = /^\/(\d+)(\/.*)$/.exec(incoming.url ?? "") ?? [];
    const sound = await soundAnswer(api, incoming, rest);
    const visitor = visitorOf(Number(run));
    const resource = rest.replace(/\?.*$/s, "").replace(/^\/[^/]*\/?/, "");
    const name = `${incoming.method} ${resource}`;
    const number = (visitor.counts.get(name) ?? 0) + 1;
    visitor.counts.set(name, number);
    const random = visitor.random.fork(`${name}/${number}`);
    const isHostile = visitor.askedCount++ < HOSTILE_COUNT_MAX && random.chance(visitor.ratio);
    const url = `http://${host}${incoming.url}`;
    const given = isHostile
      ? mutated(sound, { url, resource, headers: incoming.headers }, random)
      : sound;
    if (rest.includes("feed=longpoll")) {
      visitor.pollCount++;
      visitor.polled.tell();
    }
    visitor.sent.push(given.body.subarray(0, KEPT_BYTES_MAX));
    return given;
  };
  const server = createServer((incoming) => {
    const { socket } = incoming;
    socket.on("error", () => {});
    void answer(incoming)
      .then((given) => send(socket, given))
      .then((byteCount) => {
        peer.longestBytes = Math.max(peer.longestBytes, byteCount);
      })
      .catch(() => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    api,
    url: (run, database) => `http://127.0.0.1:${port}/${run}/${database}`,
    sentTo: (run) => Buffer.concat(visitorOf(run).sent),
    async polledBy(run, count) {
      const visitor = visitorOf(run);
      while (visitor.pollCount < count) await visitor.polled.wait();
    },
    get longestBytes() {
      return peer.longestBytes;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Callers that wait for the visitor's next long poll. `tell` wakes all of them. */
class Polled {
  #waiting: (() => void)[] = [];

  wait(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  tell(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/** Number of bytes kept of each body sent. Bodies that are longer contain no documents. */
const KEPT_BYTES_MAX = 4_000_000;

async function soundAnswer(
  { ask }: OpenApi,
  incoming: IncomingMessage,
  path: string,
): Promise<PeerAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const headers = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]);
  const { status, bytes, ...answer } = await ask(`${incoming.method} ${path}`, {
    headers: Object.fromEntries(headers),
    body: Buffer.concat(chunks),
  });
  return {
    status,
    headers: Object.entries(answer.headers).map(([name, value]) => [name.toLowerCase(), value]),
    body: bytes,
    framing: { kind: "whole" },
  };
}

/**
 * Sends the response with its framing. Returns the number of body bytes that the client accepted.
 */
async function send(
  socket: Socket,
  { status, headers, body, framing }: PeerAnswer,
): Promise<number> {
  if (framing.kind === "raw") {
    socket.end(body);
    return 0;
  }
  const length = body.length + (framing.kind === "length" ? framing.off : 0);
  const isChunked = framing.kind === "chunked" || framing.kind === "endless";
  const sized = isChunked ? "transfer-encoding: chunked" : `content-length: ${length}`;
  // A response that already has a length header does not get a second one.
  const saysSize = headers.some(
    ([name]) => name === "content-length" || name === "transfer-encoding",
  );
  const lines = [
    `HTTP/1.1 ${status} x`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(saysSize ? [] : [sized]),
    "connection: close",
    "\r\n",
  ];
  socket.write(Buffer.from(lines.join("\r\n"), "latin1"));
  if (framing.kind === "cut") {
    socket.write(body.subarray(0, framing.byteCount), () => socket.resetAndDestroy());
    return framing.byteCount;
  }
  if (framing.kind === "stall") {
    socket.write(body.subarray(0, framing.byteCount));
    return framing.byteCount;
  }
  if (framing.kind === "endless") return sendEndlessly(socket, body, framing);
  if (!isChunked) return sendPieces(socket, body);
  socket.end(Buffer.concat([chunk(body), Buffer.from("0\r\n\r\n")]));
  return body.length;
}

function chunk(bytes: Uint8Array): Buffer {
  if (bytes.length === 0) return Buffer.alloc(0);
  return Buffer.concat([
    Buffer.from(`${bytes.length.toString(16)}\r\n`),
    bytes,
    Buffer.from("\r\n"),
  ]);
}

async function sendPieces(socket: Socket, body: Buffer): Promise<number> {
  let byteCount = 0;
  while (byteCount < body.length && !socket.destroyed) {
    const piece = body.subarray(byteCount, byteCount + 65_536);
    if (!(await written(socket, piece))) return byteCount;
    byteCount += piece.length;
  }
  socket.end();
  return byteCount;
}

async function sendEndlessly(
  socket: Socket,
  body: Buffer,
  { filler, byteCountMax }: { readonly filler: Buffer; readonly byteCountMax: number },
): Promise<number> {
  let byteCount = body.length;
  const piece = chunk(filler);
  let isOpen = await written(socket, chunk(body));
  while (isOpen && byteCount < byteCountMax) {
    isOpen = await written(socket, piece);
    byteCount += filler.length;
  }
  socket.resetAndDestroy();
  return byteCount;
}

/**
 * Writes bytes to the socket. Resolves to true once the client has accepted them, or to false if it
 * has disconnected.
 */
function written(socket: Socket, bytes: Uint8Array): Promise<boolean> {
  return new Promise((resolve) => {
    if (socket.destroyed) return resolve(false);
    const onClose = (): void => resolve(false);
    socket.once("close", onClose);
    socket.write(bytes, (error) => {
      socket.off("close", onClose);
      resolve(error === undefined || error === null);
    });
  });
}
