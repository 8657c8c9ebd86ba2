/** Requests over TLS and through proxies, with real sockets. */
import { EventEmitter, once } from "node:events";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request as forward, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test, vi } from "vitest";
import { type ConnectTo, openUndiciFetch, parseConnectTo } from "../../src/host/index.ts";
import { type Connection, readText } from "../../src/http-client/index.ts";
import { closedPort } from "../support/closed-port.ts";
import { deferred } from "../support/deferred.ts";

const file = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const pem = (name: string): Buffer => readFileSync(file(name));

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return (server.address() as AddressInfo).port;
}

/** Opens a server that responds with the name in the client's certificate. */
function openTlsServer(): Promise<number> {
  const options = {
    cert: pem("server.pem"),
    key: pem("server-key.pem"),
    ca: pem("ca.pem"),
    requestCert: true,
    rejectUnauthorized: false,
  };
  return listen(
    createTlsServer(options, (incoming, response) => {
      const socket = incoming.socket as TLSSocket;
      response.end(socket.authorized ? socket.getPeerCertificate().subject.CN : "nobody");
    }),
  );
}

const openPlainServer = (): Promise<number> =>
  listen(createServer((incoming, response) => response.end(`plain ${incoming.url}`)));

async function get(
  url: string,
  connection?: Connection,
  connectTo: readonly string[] = [],
): Promise<string> {
  const overrides = connectTo.map((text) => parseConnectTo(text) as ConnectTo);
  const undici = openUndiciFetch({ connectTo: () => overrides });
  closing.push(() => undici.close());
  const { signal } = new AbortController();
  const request = {
    method: "GET",
    url,
    inactivityTimeoutMs: 5000,
    signal,
    ...(connection === undefined ? {} : { connection }),
  } as const;
  return readText(await undici.fetch(request));
}

test("idle feeds from a server do not delay other requests to the same server", async () => {
  const feedCount = 300;
  const resting: ServerResponse[] = [];
  const allIdle = new EventEmitter();
  const port = await listen(
    createServer((incoming, response) => {
      if (incoming.url !== "/feed") response.end("answered");
      else if (resting.push(response) === feedCount) allIdle.emit("now");
    }),
  );
  const undici = openUndiciFetch();
  closing.push(() => undici.close());
  const { signal } = new AbortController();
  const ask = async (path: string, connection: Connection): Promise<string> => {
    const url = `http://127.0.0.1:${port}${path}`;
    const request = {
      method: "GET",
      url,
      inactivityTimeoutMs: 60_000,
      connection,
      signal,
    } as const;
    return readText(await undici.fetch(request));
  };
  const rest = once(allIdle, "now");
  const feeds = Array.from({ length: feedCount }, () => ask("/feed", { isFeed: true }));
  await rest;
  expect(await ask("/", {})).toBe("answered");
  for (const response of resting) response.end("changed");
  expect(new Set(await Promise.all(feeds))).toEqual(new Set(["changed"]));
});

test("a server with an invalid certificate receives no request", async () => {
  const url = `https://127.0.0.1:${await openTlsServer()}/`;
  await expect(get(url, { tls: { verify: true } })).rejects.toMatchObject({
    code: "HTTP_REQUEST_FAILED",
    details: { cause: "SELF_SIGNED_CERT_IN_CHAIN" },
  });
  await expect(get(url, {})).rejects.toMatchObject({ code: "HTTP_REQUEST_FAILED" });
  expect(await get(url, { tls: { verify: false } })).toBe("nobody");
});

test("a connection redirected with connectTo keeps the host in the request and in the TLS handshake", async () => {
  const names: unknown[] = [];
  const options = { cert: pem("server.pem"), key: pem("server-key.pem") };
  const server = createTlsServer(options, ({ headers, socket }, response) => {
    names.push(headers.host, (socket as TLSSocket).servername);
    response.end("answered");
  });
  const to = `127.0.0.1:${await listen(server)}`;
  const tls = { verify: true, trustedCertificatesFile: file("ca.pem") };
  expect(await get("https://localhost/", { tls }, [`localhost:443:${to}`])).toBe("answered");
  expect(names).toEqual(["localhost", "localhost"]);
  await expect(get("https://a.example/", { tls }, [`*.example:443:${to}`])).rejects.toMatchObject({
    details: { cause: "ERR_TLS_CERT_ALTNAME_INVALID" },
  });
});

test("a connectTo rule applies only to connections to its port", async () => {
  const port = await openPlainServer();
  const to = [`127.0.0.9:5984:127.0.0.1:${port}`];
  expect(await get("http://127.0.0.9:5984/", undefined, to)).toBe("plain /");
  await expect(get("http://127.0.0.9:5983/", undefined, to)).rejects.toThrow();
});

test("a certificate of a configured authority is accepted up to the configured depth", async () => {
  const url = `https://localhost:${await openTlsServer()}/`;
  const tls = { verify: true, trustedCertificatesFile: file("ca.pem") };
  expect(await get(url, { tls: { ...tls, depthMax: 0 } })).toBe("nobody");
});

test.each([
  ["client-key.pem", {}],
  ["client-key-encrypted.pem", { password: "opened" }],
])("a client authenticates with the key in %s", async (keyFile, password) => {
  const url = `https://127.0.0.1:${await openTlsServer()}/`;
  const tls = {
    verify: true,
    trustedCertificatesFile: file("ca.pem"),
    certificateFile: file("client.pem"),
    keyFile: file(keyFile),
    ...password,
  };
  expect(await get(url, { tls })).toBe("client");
});

test.each([
  ["a job", { tls: { verify: true } }],
  ["a webhook or a command, which does not configure TLS,", {}],
])("%s accepts certificates of the operating system's authorities", async (_, connection) => {
  const url = `https://localhost:${await openTlsServer()}/`;
  vi.stubEnv("SSL_CERT_FILE", file("ca.pem"));
  closing.push(() => vi.unstubAllEnvs());
  expect(await get(url, connection)).toBe("nobody");
});

test("a job without TLS does not need the operating system's certificates", async () => {
  const url = `http://127.0.0.1:${await openPlainServer()}/db`;
  // A folder cannot be read as a file.
  vi.stubEnv("SSL_CERT_FILE", file("."));
  closing.push(() => vi.unstubAllEnvs());
  expect(await get(url, { tls: { verify: true } })).toBe("plain /db");
});

test("a busy pool uses a renewed client certificate within a minute, but only once the key file matches the certificate", async () => {
  const url = `https://127.0.0.1:${await openTlsServer()}/`;
  const folder = mkdtempSync(join(tmpdir(), "tandem-client-"));
  const certificateFile = join(folder, "cert.pem");
  const keyFile = join(folder, "key.pem");
  const undici = openUndiciFetch();
  closing.push(() => rmSync(folder, { recursive: true }), undici.close);
  const tls = {
    verify: true,
    trustedCertificatesFile: file("ca.pem"),
    certificateFile,
    keyFile,
  };
  const { signal } = new AbortController();
  const ask = async () => {
    const request = { method: "GET", url, inactivityTimeoutMs: 60_000, signal } as const;
    return readText(await undici.fetch({ ...request, connection: { tls } }));
  };
  let nowMs = performance.now();
  const now = vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  closing.push(() => now.mockRestore());
  copyFileSync(file("server.pem"), certificateFile);
  copyFileSync(file("server-key.pem"), keyFile);
  const former = await ask();
  expect(former).not.toBe("client");
  copyFileSync(file("client.pem"), certificateFile);
  nowMs += 30_000;
  expect(await ask()).toBe(former);
  copyFileSync(file("client-key.pem"), keyFile);
  for (let second = 0; second < 30; second++) {
    nowMs += 1000;
    await ask();
  }
  expect(await ask()).toBe("client");
});

test("a request fails if the server sends too many informational responses, and succeeds if the server sends a few", async () => {
  const early = "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n";
  const port = await listen(
    createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (asked) => {
        const count = asked.includes("GET /few") ? 10 : 11;
        socket.end(`${early.repeat(count)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`);
      });
    }),
  );
  expect(await get(`http://127.0.0.1:${port}/few`)).toBe("ok");
  await expect(get(`http://127.0.0.1:${port}/many`)).rejects.toMatchObject({
    details: { cause: "TOO_MANY_INFORMATIONAL" },
  });
});

test("the error for a missing certificate file contains its path", async () => {
  const tls = { verify: true, trustedCertificatesFile: "/nowhere/ca.pem" };
  await expect(get("https://127.0.0.1:1/", { tls })).rejects.toMatchObject({
    code: "HTTP_CERTIFICATE_UNREADABLE",
    details: { reason: "/nowhere/ca.pem: ENOENT" },
  });
});

interface ProxyLog {
  readonly port: number;
  readonly lines: string[];
}

/**
 * Opens a proxy that forwards plain HTTP requests and tunnels requests over TLS, if the client
 * sends the credentials `user:secret`.
 */
async function openProxy(): Promise<ProxyLog> {
  const lines: string[] = [];
  const expected = `Basic ${Buffer.from("user:s@cret").toString("base64")}`;
  const server = createServer((incoming, response) => {
    lines.push(`${incoming.method} ${incoming.url}`);
    if (incoming.headers["proxy-authorization"] !== expected) response.writeHead(407).end();
    else forward(incoming.url as string, (answer) => answer.pipe(response)).end();
  });
  server.on("connect", (incoming, socket: Socket) => {
    lines.push(`${incoming.method} ${incoming.url}`);
    const isKnown = incoming.headers["proxy-authorization"] === expected;
    const [host = "", port] = (incoming.url as string).split(":");
    if (!isKnown) return void socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    const onward = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      onward.pipe(socket).pipe(onward);
    });
    onward.on("error", () => socket.destroy());
    socket.on("error", () => onward.destroy());
    closing.push(() => onward.destroy());
  });
  return { port: await listen(server), lines };
}

test("an HTTP proxy forwards plain requests, and tunnels requests over TLS", async () => {
  const proxy = await openProxy();
  const proxyUrl = `http://user:s%40cret@127.0.0.1:${proxy.port}`;
  const plain = `127.0.0.1:${await openPlainServer()}`;
  const secured = `127.0.0.1:${await openTlsServer()}`;
  const tls = { verify: true, trustedCertificatesFile: file("ca.pem") };
  expect(await get(`http://${plain}/a%2Fb?c=1`, { proxyUrl })).toBe("plain /a%2Fb?c=1");
  expect(await get(`https://${secured}/x`, { proxyUrl, tls })).toBe("nobody");
  expect(proxy.lines).toEqual([`GET http://${plain}/a%2Fb?c=1`, `CONNECT ${secured}`]);
});

test.each(["http", "https"])(
  "an error is attributed to the proxy if the proxy rejects the client's credentials, for %s",
  async (scheme) => {
    const { port } = await openProxy();
    const proxyUrl = `http://user:wrong@127.0.0.1:${port}`;
    const error = await get(`${scheme}://127.0.0.1:1/x`, { proxyUrl }).catch((failure) => failure);
    expect(error.details).toMatchObject({ cause: "PROXY_407", isFaultOfProxy: true });
    expect(JSON.stringify(error.details)).not.toContain("wrong");
  },
);

test.each([403, 502, 503, 504])(
  "an error is attributed to the proxy if it refuses a tunnel with %i",
  async (status) => {
    const server = createServer();
    server.on("connect", (_, socket: Socket) => socket.end(`HTTP/1.1 ${status} No\r\n\r\n`));
    const proxyUrl = `http://127.0.0.1:${await listen(server)}`;
    await expect(get("https://couch.example/x", { proxyUrl })).rejects.toMatchObject({
      details: { cause: `PROXY_${status}`, proxy: proxyUrl, isFaultOfProxy: true },
    });
  },
);

test.each([
  ["closes the connection", "HTTP/1.1 403 No", true],
  ["keeps the connection open", "HTTP/1.1 403 No\r\nContent-Length: 44", false],
])("the message of a proxy that rejects a tunnel and %s is reported", async (_, head, closes) => {
  const server = createServer();
  const body = "<h1>Blocked for user:s@cret, by policy 7</h1>";
  expect(body).toHaveLength(45);
  server.on("connect", (_request, socket: Socket) => {
    socket.write(`${head}\r\n\r\n${body.slice(0, 20)}`);
    setImmediate(() => (closes ? socket.end(body.slice(20)) : socket.write(body.slice(20))));
  });
  const proxyUrl = `http://user:s%40cret@127.0.0.1:${await listen(server)}`;
  const { details } = await get("https://couch.example/x", { proxyUrl }).catch((error) => error);
  const text = "<h1>Blocked for user:*****, by policy 7</h1>";
  expect(details).toMatchObject({ cause: "PROXY_403", text: closes ? text : text.slice(0, -1) });
});

test("the error of a request names an unreachable proxy without its password", async () => {
  const port = await closedPort();
  for (const scheme of ["http", "https"]) {
    for (const proxyScheme of ["http", "https", "socks5"]) {
      for (const host of [`127.0.0.1:${port}`, "proxy.invalid:1"]) {
        const proxyUrl = `${proxyScheme}://user:s%40cret@${host}`;
        const url = `${scheme}://127.0.0.1:1/x`;
        const error = await get(url, { proxyUrl }).catch((failure) => failure);
        const proxy = `${proxyScheme}://${host}`;
        expect(error.details).toMatchObject({ url, proxy, isFaultOfProxy: true });
        const cause = host.startsWith("127") ? /^ECONNREFUSED$/ : /^(ENOTFOUND|EAI_AGAIN)$/;
        expect(error.details.cause).toMatch(cause);
      }
    }
  }
  const direct = await get(`http://127.0.0.1:${port}/x`, {}).catch((failure) => failure);
  expect(direct.details).not.toHaveProperty("proxy");
});

test("a failure of the server behind a tunnel is not attributed to the proxy", async () => {
  const { port } = await openProxy();
  const proxyUrl = `http://user:s%40cret@127.0.0.1:${port}`;
  const url = `https://127.0.0.1:${await openTlsServer()}/x`;
  const error = await get(url, { proxyUrl, tls: { verify: true } }).catch((failure) => failure);
  expect(error.details).toMatchObject({
    cause: "SELF_SIGNED_CERT_IN_CHAIN",
    isFaultOfProxy: false,
  });
});

test("an error is attributed to the proxy if the proxy's certificate is not trusted", async () => {
  const proxyUrl = `https://localhost:${await openTlsServer()}`;
  for (const scheme of ["http", "https"]) {
    const error = await get(`${scheme}://127.0.0.1:1/x`, { proxyUrl }).catch((failure) => failure);
    expect(error.details).toMatchObject({
      cause: "SELF_SIGNED_CERT_IN_CHAIN",
      isFaultOfProxy: true,
    });
  }
});

/** Opens a SOCKS5 proxy (RFC 1928, RFC 1929) for the user `user` with the password `secret`. */
async function openSocks(): Promise<ProxyLog> {
  const lines: string[] = [];
  const server = createTcpServer((socket) => {
    let step = 0;
    socket.on("error", () => {});
    socket.on("data", (data: Buffer) => {
      if (step === 0) socket.write(Buffer.of(5, 2));
      else if (step === 1) {
        const nameLength = data[1] as number;
        const name = data.subarray(2, 2 + nameLength).toString();
        const password = data.subarray(3 + nameLength).toString();
        socket.write(Buffer.of(1, name === "user" && password === "s@cret" ? 0 : 1));
      } else if (step === 2) {
        const isName = data[3] === 3;
        const end = isName ? 5 + (data[4] as number) : 8;
        const host = isName ? data.subarray(5, end).toString() : data.subarray(4, 8).join(".");
        const port = data.readUInt16BE(end);
        lines.push(`${host}:${port}`);
        const onward = connect(port, host, () => {
          socket.write(Buffer.of(5, 0, 0, 1, 127, 0, 0, 1, 0, 0));
          socket.removeAllListeners("data");
          onward.pipe(socket).pipe(onward);
        });
        onward.on("error", () => socket.destroy());
        closing.push(() => onward.destroy());
      }
      step++;
    });
  });
  return { port: await listen(server), lines };
}

test("requests over HTTP and over TLS go through a SOCKS5 proxy", async () => {
  const proxy = await openSocks();
  const proxyUrl = `socks5://user:s%40cret@127.0.0.1:${proxy.port}`;
  const plainPort = await openPlainServer();
  const tlsPort = await openTlsServer();
  const tls = { verify: true, trustedCertificatesFile: file("ca.pem") };
  expect(await get(`http://127.0.0.1:${plainPort}/x`, { proxyUrl })).toBe("plain /x");
  expect(await get(`https://localhost:${tlsPort}/x`, { proxyUrl, tls })).toBe("nobody");
  expect(proxy.lines).toEqual([`127.0.0.1:${plainPort}`, `localhost:${tlsPort}`]);
});

test.each([
  [[5, 255], "UND_ERR_SOCKS5_AUTH_REJECTED"],
  [[4, 0], "UND_ERR_SOCKS5_VERSION"],
  [[5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0], "UND_ERR_SOCKS5_REPLY_5"],
])("an error is attributed to a SOCKS5 proxy that answers %j", async (bytes, cause) => {
  const answers = [bytes.slice(0, 2), bytes.slice(2)].map((answer) => Buffer.from(answer));
  const server = createTcpServer((socket) => {
    let step = 0;
    socket.on("error", () => {});
    socket.on("data", () => socket.write(answers[step++] ?? ""));
  });
  const proxyUrl = `socks5://127.0.0.1:${await listen(server)}`;
  await expect(get("https://couch.example/x", { proxyUrl })).rejects.toMatchObject({
    details: { cause, proxy: proxyUrl, isFaultOfProxy: true },
  });
});

test.each(["before its answer", "within its answer"])(
  "aborting a request %s closes its connection",
  async (when) => {
    const answered = when === "within its answer";
    const asked = deferred<Socket>();
    const server = createServer((incoming, response) => {
      if (answered) response.write("begun");
      asked.resolve(incoming.socket);
    });
    const url = `http://127.0.0.1:${await listen(server)}/`;
    const undici = openUndiciFetch();
    closing.push(() => undici.close());
    const owner = new AbortController();
    const request = {
      method: "GET",
      url,
      inactivityTimeoutMs: 60_000,
      signal: owner.signal,
    } as const;
    const reading = undici.fetch(request).then(readText);
    reading.catch(() => {});
    const socket = await asked.promise;
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    owner.abort(new Error("The run has ended"));
    await closed;
    await expect(reading).rejects.toThrow("The run has ended");
  },
);

test("an unused connection is kept for other requests, and closed at its idle time limit", async () => {
  const server = createServer((_, response) => response.end("ok"));
  server.keepAliveTimeout = 0;
  const closed: Promise<unknown>[] = [];
  server.on("connection", (socket) => closed.push(once(socket, "close")));
  const url = `http://127.0.0.1:${await listen(server)}/`;
  const undici = openUndiciFetch({ idleMsMax: () => 300 });
  closing.push(() => undici.close());
  const { signal } = new AbortController();
  const request = { method: "GET", url, inactivityTimeoutMs: 5000, signal } as const;
  for (let count = 0; count < 20; count++) await readText(await undici.fetch(request));
  // A request may need a second connection, because the first one becomes available only shortly
  // after its response has been read.
  expect(closed.length).toBeLessThanOrEqual(2);
  await Promise.all(closed);
  const before = closed.length;
  await readText(await undici.fetch(request));
  await readText(await undici.fetch({ ...request, connection: { generation: 1 } }));
  expect(closed.length).toBe(before + 2);
});

test("a shortened idle time limit also applies to connections that are already idle", async () => {
  const server = createServer((_, response) => response.end("ok"));
  server.keepAliveTimeout = 0;
  const closed: Promise<unknown>[] = [];
  server.on("connection", (socket) => closed.push(once(socket, "close")));
  const url = `http://127.0.0.1:${await listen(server)}/`;
  let idleMsMax = 3_600_000;
  const undici = openUndiciFetch({ idleMsMax: () => idleMsMax });
  closing.push(() => undici.close());
  const { signal } = new AbortController();
  const request = { method: "GET", url, inactivityTimeoutMs: 5000, signal } as const;
  await readText(await undici.fetch(request));
  idleMsMax = 60_000;
  await readText(await undici.fetch(request));
  await closed[0];
  expect(closed.length).toBe(2);
});
