/**
 * Tests that the signal of a request aborts when the client disconnects or the server stops, and
 * tests how responses are sent.
 */
import { once } from "node:events";
import { request } from "node:http";
import { connect, Socket } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import type { Api, ApiRequest } from "../../src/api/index.ts";
import { type NodeServer, openNodeServer } from "../../src/host/index.ts";

const trace = { event: () => {} };
const servers: NodeServer[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const server of servers.splice(0)) await server.close();
});

async function open(api: Api): Promise<NodeServer> {
  const server = await openNodeServer({ port: 0, bindAddress: "127.0.0.1", api, trace });
  servers.push(server);
  return server;
}

/**
 * Returns an API that responds only after the request's signal has aborted. `arrived` resolves to
 * the first request.
 */
function waitingApi(): { readonly api: Api; readonly arrived: Promise<ApiRequest> } {
  let arrive: (call: ApiRequest) => void;
  const arrived = new Promise<ApiRequest>((resolve) => {
    arrive = resolve;
  });
  const api: Api = async (call) => {
    arrive(call);
    if (!call.signal.aborted) await once(call.signal, "abort");
    return { status: 200, headers: {}, body: String(call.signal.reason.message) };
  };
  return { api, arrived };
}

test("a client that disconnects before its response arrives aborts only its own request", async () => {
  const { api, arrived } = waitingApi();
  const others: ApiRequest[] = [];
  const { port } = await open((call) => {
    if (call.path === "/waits") return api(call);
    others.push(call);
    return Promise.resolve({ status: 200, headers: {}, body: "here" });
  });
  const client = request({ port, path: "/waits" }).end();
  client.on("error", () => {});
  const { signal } = await arrived;
  const answer = await fetch(`http://127.0.0.1:${port}/other`);
  expect(await answer.text()).toBe("here");
  expect(signal.aborted).toBe(false);
  client.destroy();
  await once(signal, "abort");
  expect(signal.reason.message).toBe("The client has disconnected");
  expect(others.map((call) => call.signal.aborted)).toEqual([false]);
});

test("when a server stops, it aborts the handlers of requests, sends their responses, and closes idle connections", async () => {
  const { api, arrived } = waitingApi();
  const server = await open(api);
  const asked = fetch(`http://127.0.0.1:${server.port}/waits`);
  await arrived;
  // Fakes the timer that destroys the connections of clients that do not read. The timer never
  // fires, so the server itself has to close the idle connection.
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  const closed = server.close();
  vi.useRealTimers();
  expect(await (await asked).text()).toBe("The node is stopping");
  await closed;
});

test("chunks that a response yields together are sent immediately, without waiting for later chunks", async () => {
  // Records the results of all writes to sockets.
  const writes = vi.spyOn(
    Socket.prototype as unknown as { _writeGeneric(): void },
    "_writeGeneric",
  );
  let seen = (): void => {};
  const isSeen = new Promise<void>((resolve) => {
    seen = resolve;
  });
  async function* body() {
    yield "first,";
    yield "second,";
    await isSeen;
    yield "third,";
    yield "fourth";
  }
  const { port } = await open(async () => ({ status: 200, headers: {}, body: body() }));
  const client = connect(port, "127.0.0.1");
  let answer = "";
  client.on("data", (bytes) => {
    answer += bytes.toString();
    seen();
  });
  client.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  await once(client, "close");
  expect(answer).toMatch(/^HTTP\/1.1 200 OK.*first,.*second,.*third,.*fourth\r\n0\r\n\r\n$/s);
  const answering = writes.mock.contexts.filter((socket) => (socket as unknown) !== client);
  expect(answering).toHaveLength(2);
});

test("a response of many small chunks arrives completely", async () => {
  async function* body() {
    for (let count = 0; count < 2_000; count++) yield "x".repeat(1_000);
  }
  const { port } = await open(async () => ({ status: 200, headers: {}, body: body() }));
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  expect(await answer.text()).toHaveLength(2_000_000);
});

test("a request target in absolute form is reduced to its path, and its host overrides the Host header", async () => {
  const asked: unknown[] = [];
  const { port } = await open(async ({ path, query, headers }) => {
    asked.push([path, Object.fromEntries(query), headers.get("host")]);
    return { status: 200, headers: {}, body: "" };
  });
  const targets = [
    "http://db.example:5984/films/a?rev=1-x",
    "HTTPS://db.example",
    "http://db.example?x=http://y/z",
    "/films?next=http://other.example/",
    "/http://other.example/",
  ];
  for (const target of targets) {
    const client = connect(port, "127.0.0.1");
    client.write(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    client.resume();
    await once(client, "close");
  }
  expect(asked).toEqual([
    ["/films/a", { rev: "1-x" }, "db.example:5984"],
    ["/", {}, "db.example"],
    ["/", { x: "http://y/z" }, "db.example"],
    ["/films", { next: "http://other.example/" }, "a"],
    ["/http://other.example/", {}, "a"],
  ]);
});

test("query parameters are separated by ampersands and by semicolons, as in CouchDB", async () => {
  const asked: unknown[] = [];
  const { port } = await open(async ({ query }) => {
    asked.push(Object.fromEntries(query));
    return { status: 200, headers: {}, body: "" };
  });
  await fetch(`http://127.0.0.1:${port}/films?limit=1;skip=2&key=%22a%3Bb%22;c`);
  expect(asked).toEqual([{ limit: "1", skip: "2", key: '"a;b"', c: "" }]);
});

test.each(["%ED%A0%BD", "%ff", "a%C3"])(
  "a query that is not UTF-8 gets status 400, but a single percent sign does not: %s",
  async (text) => {
    const asked: unknown[] = [];
    const { port } = await open(async ({ query }) => {
      asked.push(query.get("key"));
      return { status: 200, headers: {}, body: "" };
    });
    const refused = await fetch(`http://127.0.0.1:${port}/films?key=${text}`);
    expect(refused.status).toBe(400);
    const reason = "The query string is not UTF-8 encoded";
    expect(await refused.json()).toEqual({ error: "bad_request", reason });
    expect((await fetch(`http://127.0.0.1:${port}/films?key=100%&c=%zz`)).status).toBe(200);
    expect(asked).toEqual(["100%"]);
  },
);
