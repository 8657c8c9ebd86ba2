/**
 * Egress rules: which destinations requests may reach. The tests use real sockets and control the
 * name resolution.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import {
  createSystemRuntime,
  EgressRules,
  openUndiciFetch,
  parseEgressRule,
  type Resolve,
  systemClock,
} from "../../src/host/index.ts";
import {
  type Connection,
  type Fetch,
  oauthRequest,
  readText,
  SessionLogin,
  TokenLogin,
  withRedirects,
} from "../../src/http-client/index.ts";

const pem = (name: string): Buffer =>
  readFileSync(new URL(`../fixtures/tls/${name}`, import.meta.url));

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/**
 * Starts a server on the loopback interface. Returns its port and the connections that it accepted.
 */
async function listen(server: Server | ReturnType<typeof createTcpServer>) {
  const sockets: Socket[] = [];
  server.on("connection", (socket: Socket) => sockets.push(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

const openPlainServer = () => listen(createServer((_, response) => response.end("ok")));

function rules({ allow = [], deny = [] }: { allow?: string[]; deny?: string[] }): EgressRules {
  const parsed = (texts: string[]) => texts.flatMap((text) => parseEgressRule(text) ?? []);
  return new EgressRules(parsed(allow), parsed(deny));
}

/**
 * Opens a client that applies these egress rules. For every name, its resolver returns the current
 * result of `addresses`.
 */
function openFetch(egressRules: () => EgressRules, addresses: () => readonly string[] = () => []) {
  const asked: string[] = [];
  const resolve: Resolve = (host, _, callback) => {
    asked.push(host);
    const family = (address: string) => (address.includes(":") ? 6 : 4);
    callback(
      null,
      addresses().map((address) => ({ address, family: family(address) })),
    );
  };
  const { fetch, close } = openUndiciFetch({ egressRules, resolve });
  closing.push(close);
  return { fetch, asked };
}

async function get(fetch: Fetch, url: string, connection: Connection = {}): Promise<string> {
  const { signal } = new AbortController();
  const request = { method: "GET", url, inactivityTimeoutMs: 5000, connection, signal } as const;
  return readText(await fetch(request));
}

function refusal(reason: string) {
  return { code: "HTTP_EGRESS_REFUSED", details: { reason } };
}

test("a name is checked whenever it is resolved, and the connection goes to the checked address", async () => {
  const { port, sockets } = await openPlainServer();
  let addresses = ["127.0.0.1"];
  const egress = rules({});
  const { fetch, asked } = openFetch(
    () => egress,
    () => addresses,
  );
  const url = `http://rebound.example:${port}/`;
  expect(await get(fetch, url)).toBe("ok");
  addresses = ["169.254.169.254"];
  await expect(get(fetch, url, { generation: 1 })).rejects.toMatchObject(
    refusal(
      'the address 169.254.169.254 of host rebound.example is denied by the rule "169.254.0.0/16", ' +
        "a default of [replicator.egress] deny; to permit the host, add it to [replicator.egress] allow",
    ),
  );
  expect([asked.length, sockets.length]).toEqual([2, 1]);
});

test("a client connects only to the permitted addresses if a name has several addresses", async () => {
  const { port } = await openPlainServer();
  const egress = rules({ deny: ["10.0.0.0/8", "[::1]"] });
  const { fetch } = openFetch(
    () => egress,
    () => ["10.0.0.1", "::1", "fe80::1", "127.0.0.1"],
  );
  expect(await get(fetch, `http://several.example:${port}/`)).toBe("ok");
});

test("a rule with a port denies this port at its addresses, and permits other ports", async () => {
  const { port, sockets } = await openPlainServer();
  const other = await openPlainServer();
  const egress = rules({ deny: [`127.0.0.0/8:${port}`] });
  const { fetch } = openFetch(
    () => egress,
    () => ["127.0.0.1"],
  );
  expect(await get(fetch, `http://ports.example:${other.port}/`)).toBe("ok");
  await expect(get(fetch, `http://ports.example:${port}/`)).rejects.toMatchObject(
    refusal(
      `the address 127.0.0.1 of host ports.example is denied by the rule "127.0.0.0/8:${port}" of [replicator.egress] deny`,
    ),
  );
  expect(sockets).toEqual([]);
});

test.each([
  "127.0.0.1",
  "2130706433",
  "0x7f000001",
  "0177.0.0.1",
  "127.1",
  "127.0.0.1.",
  "[::ffff:127.0.0.1]",
  "0.0.0.0",
  "[::]",
])("a denied address written as %s is refused, and no connection is opened", async (host) => {
  const { port, sockets } = await openPlainServer();
  const egress = rules({ deny: ["127.0.0.0/8"] });
  const { fetch, asked } = openFetch(() => egress);
  await expect(get(fetch, `http://${host}:${port}/`)).rejects.toMatchObject({
    code: "HTTP_EGRESS_REFUSED",
  });
  expect([asked, sockets]).toEqual([[], []]);
});

test("changed rules apply immediately, even to connections that are still open", async () => {
  const { port, sockets } = await openPlainServer();
  let egress = rules({});
  const { fetch } = openFetch(
    () => egress,
    () => ["127.0.0.1"],
  );
  const url = `http://kept.example:${port}/`;
  await Promise.all(Array.from({ length: 10 }, () => get(fetch, url)));
  // Repeats the requests until each one reuses a connection, which shows that the earlier
  // connections are available again.
  for (let count = 0; count < sockets.length; ) {
    count = sockets.length;
    await get(fetch, url);
  }
  egress = rules({ deny: ["127.0.0.1"] });
  await expect(get(fetch, url)).rejects.toMatchObject({ code: "HTTP_EGRESS_REFUSED" });
  egress = rules({ deny: ["10.0.0.1"] });
  expect(await get(fetch, url)).toBe("ok");
});

test("a redirect to a denied address is not followed", async () => {
  const { port: deniedPort, sockets } = await openPlainServer();
  const moving = createServer((incoming, response) => {
    const host = incoming.url === "/name" ? "moved.example" : "127.0.0.1";
    response.writeHead(307, { location: `http://${host}:${deniedPort}/` }).end();
  });
  const { port } = await listen(moving);
  const egress = rules({ deny: [`127.0.0.1:${deniedPort}`] });
  const { fetch } = openFetch(
    () => egress,
    () => ["127.0.0.1"],
  );
  for (const path of ["/address", "/name"]) {
    const url = `http://127.0.0.1:${port}${path}`;
    await expect(get(withRedirects(fetch), url)).rejects.toMatchObject({
      code: "HTTP_EGRESS_REFUSED",
    });
  }
  expect(sockets).toEqual([]);
});

test.each(["http", "https", "socks5"])(
  "egress rules apply to an %s proxy as to a server",
  async (scheme) => {
    const { port, sockets } = await listen(createTcpServer());
    const egress = rules({ allow: ["*.example"], deny: ["127.0.0.0/8", "10.0.0.0/8"] });
    const { fetch } = openFetch(
      () => egress,
      () => ["10.0.0.1"],
    );
    for (const url of ["http://a.example/", "https://a.example/"]) {
      const byAddress = get(fetch, url, { proxyUrl: `${scheme}://127.0.0.1:${port}` });
      await expect(byAddress).rejects.toMatchObject(
        refusal(
          'the address 127.0.0.1 is denied by the rule "127.0.0.0/8" of [replicator.egress] deny',
        ),
      );
      const byName = get(fetch, url, { proxyUrl: `${scheme}://proxy.example:${port}` });
      await expect(byName).rejects.toMatchObject(
        refusal(
          'the address 10.0.0.1 of host proxy.example is denied by the rule "10.0.0.0/8" of [replicator.egress] deny',
        ),
      );
      const other = get(fetch, url, { proxyUrl: `${scheme}://proxy.test:${port}` });
      await expect(other).rejects.toMatchObject({ code: "HTTP_EGRESS_REFUSED" });
    }
    expect(sockets).toEqual([]);
  },
);

test.each(["http", "socks5"])(
  "an %s proxy receives no request for a denied host",
  async (scheme) => {
    const { port, sockets } = await listen(createTcpServer());
    const egress = rules({ deny: ["secret.example", "10.0.0.0/8"] });
    const { fetch } = openFetch(() => egress);
    const proxyUrl = `${scheme}://127.0.0.1:${port}`;
    for (const host of ["secret.example", "10.0.0.1", "167772161", "169.254.169.254"]) {
      for (const url of [`http://${host}/`, `https://${host}/`]) {
        await expect(get(fetch, url, { proxyUrl })).rejects.toMatchObject({
          code: "HTTP_EGRESS_REFUSED",
        });
      }
    }
    expect(sockets).toEqual([]);
  },
);

test("a TLS server is checked before the client sends it anything", async () => {
  const options = { cert: pem("server.pem"), key: pem("server-key.pem") };
  const { port, sockets } = await listen(createTlsServer(options, (_, answer) => answer.end("ok")));
  let egress = rules({});
  const { fetch } = openFetch(
    () => egress,
    () => ["127.0.0.1"],
  );
  const tls = { verify: false };
  expect(await get(fetch, `https://secured.example:${port}/`, { tls })).toBe("ok");
  egress = rules({ deny: ["127.0.0.1"] });
  const denied = get(fetch, `https://secured.example:${port}/`, { tls });
  await expect(denied).rejects.toMatchObject({ code: "HTTP_EGRESS_REFUSED" });
  expect(sockets.length).toBe(1);
});

test("a denied address receives neither a password nor a key", async () => {
  const { port, sockets } = await openPlainServer();
  const egress = rules({ deny: ["127.0.0.0/8"] });
  const { fetch } = openFetch(
    () => egress,
    () => ["127.0.0.1"],
  );
  const { random } = createSystemRuntime();
  const parts = { clock: systemClock, random, fetch, connection: {}, userAgent: "test" };
  const tokenUrl = `http://token.example:${port}/identity/token`;
  const client = { tokenUrl, clientId: "client", clientSecret: "secret" };
  const token = new TokenLogin(parts, tokenUrl, () => oauthRequest(client));
  await expect(token.obtain()).rejects.toMatchObject({ code: "HTTP_EGRESS_REFUSED" });
  const credentials = { username: "user", password: "secret" };
  const login = new SessionLogin(parts, `http://127.0.0.1:${port}`, credentials);
  await expect(login.obtain()).rejects.toMatchObject({ code: "HTTP_EGRESS_REFUSED" });
  expect(sockets).toEqual([]);
});

test("requests may go to any address if no rules are configured", async () => {
  const { port } = await openPlainServer();
  const { fetch, close } = openUndiciFetch();
  closing.push(close);
  expect(await get(fetch, `http://localhost:${port}/`)).toBe("ok");
});
