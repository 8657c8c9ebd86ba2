/**
 * Connections that occupy the slots of a node without using them. The tests simulate a stalled
 * socket by emitting its `timeout` event.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Api } from "../../src/api/index.ts";
import { type ConnectionLimits, Connections } from "../../src/host/http/connections.ts";
import { type NodeServer, openNodeServer } from "../../src/host/index.ts";
import { deferred } from "../support/deferred.ts";

const SERVER_SOCKETS = "net.server.socket";
/** Timeout that is longer than any test. */
const STALL_MS = 3_600_000;
const trace = { event: () => {} };
const servers: NodeServer[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) await server.close();
});

const readsBody: Api = async ({ body, isReserved }) => {
  let byteCount = 0;
  for await (const chunk of body) byteCount += chunk.length;
  return { status: 200, headers: {}, body: `${byteCount} ${isReserved}` };
};

/** Returns the server's side of a connection. */
function accept(socket: Socket): Promise<Socket> {
  return new Promise((resolve) => {
    const sides: Socket[] = [];
    const find = (): void => {
      const side = sides.find(({ remotePort }) => remotePort === socket.localPort);
      if (side === undefined) return;
      unsubscribe(SERVER_SOCKETS, onSocket);
      resolve(side);
    };
    const onSocket = (message: unknown): void => {
      sides.push((message as { socket: Socket }).socket);
      find();
    };
    subscribe(SERVER_SOCKETS, onSocket);
    socket.once("connect", find);
  });
}

async function open(limits: Partial<ConnectionLimits>, api: Api = readsBody) {
  const connections = new Connections({
    connectionsMax: 1_000,
    reservedCount: 0,
    stallMs: STALL_MS,
    ...limits,
  });
  const server = await openNodeServer({
    port: 0,
    bindAddress: "127.0.0.1",
    api,
    trace,
    connections,
  });
  servers.push(server);
  return {
    async connect(text = "", localAddress = "127.0.0.1") {
      const socket = connect({ port: server.port, host: "127.0.0.1", localAddress });
      sockets.push(socket);
      const accepted = accept(socket);
      let received = "";
      socket.on("data", (bytes) => {
        received += bytes.toString();
      });
      // A reset connection also emits `close`.
      socket.on("error", () => {});
      const closed = new Promise<string>((resolve) =>
        socket.once("close", () => resolve(received)),
      );
      await once(socket, "connect");
      socket.write(text);
      return { socket, accepted, closed, received: () => received };
    },
  };
}

const UPLOAD = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
const ASK = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

test("a connection that sends no request is closed", async () => {
  const { connect } = await open({});
  for (const text of ["", "GET / HTTP/1.1\r\nHo"]) {
    const { accepted, closed } = await connect(text);
    (await accepted).emit("timeout");
    expect(await closed).toBe("");
  }
});

test("a request whose headers arrive byte by byte is aborted, although it makes progress", async () => {
  const { connect } = await open({ stallMs: 120 });
  const { socket, closed } = await connect("GET / HTTP/1.1\r\nX-Slow: ");
  const trickle = setInterval(() => socket.write("x"), 20);
  expect(await closed).toMatch(/^(HTTP\/1.1 408|$)/);
  clearInterval(trickle);
});

test("a body without progress gets a response with status 408", async () => {
  const reading = deferred();
  const api: Api = (request) => {
    reading.resolve();
    return readsBody(request);
  };
  const { connect } = await open({}, api);
  const { accepted, closed } = await connect(UPLOAD);
  await reading.promise;
  const stalled = await accepted;
  expect(stalled.timeout).toBe(STALL_MS);
  stalled.emit("timeout");
  expect(await closed).toMatch(/^HTTP\/1.1 408 Request Timeout/);
});

test("a slow body that makes progress is accepted, and a silent feed stays open", async () => {
  const end = deferred<void>();
  async function* feed() {
    yield "first,";
    await end.promise;
    yield "last";
  }
  const took = new EventEmitter();
  const api: Api = async (request) => {
    if (request.method !== "POST") return { status: 200, headers: {}, body: feed() };
    let byteCount = 0;
    for await (const chunk of request.body) {
      byteCount += chunk.length;
      took.emit("bytes", byteCount);
    }
    return { status: 200, headers: {}, body: String(byteCount) };
  };
  const { connect } = await open({}, api);
  const following = await connect(ASK);
  await once(following.socket, "data");
  const slow = await connect(UPLOAD.replace("Host: a", "Host: a\r\nConnection: close"));
  for (let sent = 1; sent <= 10; sent++) {
    const taken = once(took, "bytes");
    slow.socket.write("x");
    expect(await taken).toEqual([sent]);
    const silent = await following.accepted;
    silent.emit("timeout");
    expect([silent.destroyed, silent.timeout]).toEqual([false, STALL_MS]);
  }
  expect(await slow.closed).toMatch(/10$/);
  end.resolve();
  expect(await following.closed).toMatch(/first,.*last/s);
});

test("if all slots are occupied, a new connection replaces the oldest connection without a request", async () => {
  const { connect } = await open({ connectionsMax: 2 });
  const first = await connect("GET / HT");
  const second = await connect(UPLOAD);
  const third = await connect();
  await first.closed;
  third.socket.write(ASK);
  expect(await third.closed).toMatch(/^HTTP\/1.1 200/);
  second.socket.write("0123456789");
  await once(second.socket, "data");
  expect(second.received()).toMatch(/10 false$/);
});

test.skipIf(process.platform !== "linux")(
  "a flood of connections from one address replaces only connections from this address",
  async () => {
    const { connect } = await open({ connectionsMax: 4 });
    const quiet = await connect("GET / HT");
    const flood = [];
    for (let count = 0; count < 20; count++) flood.push(await connect("GET /", "127.0.0.2"));
    const other = await connect("GET /", "127.0.0.3");
    for (const each of flood.slice(0, 18)) await each.closed;
    quiet.socket.write("TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect(await quiet.closed).toMatch(/^HTTP\/1.1 200/);
    other.socket.write(ASK.slice("GET /".length));
    expect(await other.closed).toMatch(/^HTTP\/1.1 200/);
  },
);

test("if every connection has a request, a new connection replaces the slowest upload, but never a response", async () => {
  const arrived: string[] = [];
  const both = deferred<void>();
  const api: Api = (request) => {
    arrived.push(request.method);
    if (arrived.length === 2) both.resolve();
    return request.method === "POST" ? readsBody(request) : new Promise(() => {});
  };
  const { connect } = await open({ connectionsMax: 2 }, api);
  const upload = await connect(`${UPLOAD}1`);
  const asking = await connect(ASK);
  await both.promise;
  const third = await connect(ASK);
  expect(await upload.closed).toBe("");
  const fourth = await connect(ASK);
  await fourth.closed;
  expect([asking, third].map(({ socket }) => socket.destroyed)).toEqual([false, false]);
});

test("requests on reserved connections are marked, and the connections are closed after the responses", async () => {
  const asked = deferred<void>();
  const answer = deferred<void>();
  const api: Api = async (request) => {
    if (request.path !== "/slow") return readsBody(request);
    asked.resolve();
    await answer.promise;
    return { status: 200, headers: {}, body: `slow ${request.isReserved}` };
  };
  const { connect } = await open({ connectionsMax: 1, reservedCount: 1 }, api);
  const slow = await connect(ASK.replace("/", "/slow"));
  await asked.promise;
  const marked = await connect(ASK.replace("Connection: close\r\n", ""));
  expect(await marked.closed).toMatch(/0 true$/);
  answer.resolve();
  expect(await slow.closed).toMatch(/slow false$/);
});
