/** Connections that keep a node's places without using them. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Api } from "../../src/api/index.ts";
import { type ConnectionLimits, Connections } from "../../src/host/http/connections.ts";
import { type NodeServer, openNodeServer } from "../../src/host/index.ts";
import { deferred } from "../support/deferred.ts";

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

async function open(limits: Partial<ConnectionLimits>, api: Api = readsBody) {
  const connections = new Connections({
    connectionsMax: 1_000,
    reservedCount: 0,
    stallMs: 60_000,
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
      let received = "";
      socket.on("data", (bytes) => {
        received += bytes.toString();
      });
      socket.on("error", () => {});
      const closed = once(socket, "close").then(() => received);
      await once(socket, "connect");
      socket.write(text);
      return { socket, closed, received: () => received };
    },
  };
}

const UPLOAD = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
const ASK = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

test("a connection that sends no request is closed", async () => {
  const { connect } = await open({ stallMs: 60 });
  expect(await (await connect()).closed).toMatch(/^(HTTP\/1.1 408|$)/);
  expect(await (await connect("GET / HTTP/1.1\r\nHo")).closed).toMatch(/^(HTTP\/1.1 408|$)/);
});

test("headers that come byte by byte are given up, though they move", async () => {
  const { connect } = await open({ stallMs: 120 });
  const { socket, closed } = await connect("GET / HTTP/1.1\r\nX-Slow: ");
  const trickle = setInterval(() => socket.write("x"), 20);
  expect(await closed).toMatch(/^HTTP\/1.1 408/);
  clearInterval(trickle);
});

test("a body that does not move is answered 408", async () => {
  const { connect } = await open({ stallMs: 60 });
  expect(await (await connect(`${UPLOAD}123`)).closed).toMatch(/^HTTP\/1.1 408 Request Timeout/);
});

test("a slow body that moves is taken, and a silent feed goes on", async () => {
  const end = deferred<void>();
  async function* feed() {
    yield "first,";
    await end.promise;
    yield "last";
  }
  const api: Api = (request) =>
    request.method === "POST"
      ? readsBody(request)
      : Promise.resolve({ status: 200, headers: {}, body: feed() });
  const { connect } = await open({ stallMs: 700 }, api);
  const following = await connect(ASK);
  const slow = await connect(UPLOAD.replace("Host: a", "Host: a\r\nConnection: close"));
  let sent = 0;
  const trickle = setInterval(() => {
    if (++sent <= 10) slow.socket.write("x");
  }, 100);
  expect(await slow.closed).toMatch(/10 false$/);
  clearInterval(trickle);
  end.resolve();
  expect(await following.closed).toMatch(/first,.*last/s);
});

test("a new connection takes the place of the oldest one that has no request", async () => {
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
  "a flood from one address takes the places of its own connections, and not those of others",
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

test("without such a connection it takes the place of the slowest body, and never that of an answer", async () => {
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

test("requests on the reserved places are marked, and end their connections", async () => {
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
