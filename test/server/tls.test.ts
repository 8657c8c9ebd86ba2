/**
 * The API over TLS (`[ssl]`): both ports, certificate files and their replacement, and client
 * certificates.
 */
import { once } from "node:events";
import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { type RequestOptions, request } from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Clock, Trace } from "../../src/base/index.ts";
import { createSystemRuntime, openTlsServer } from "../../src/host/index.ts";
import { openServer, type RunningServer, readConfig } from "../../src/server/index.ts";
import {
  CertificateRefresher,
  readServerCertificates,
  stateOfFiles,
} from "../../src/server/server-certificates.ts";
import { Processes } from "../support/open-process.ts";

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const pem = (name: string): Buffer => readFileSync(fixture(name));

/** Time after which Node.js aborts a handshake. */
const HANDSHAKE_MS_MAX = 120_000;

const SERVED = {
  enable: "true",
  port: "0",
  cert_file: fixture("server.pem"),
  key_file: fixture("server-key.pem"),
};

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tandem-tls-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true });
});

function configOf(ssl: Readonly<Record<string, string>>, more = "") {
  const configFile = join(folder, "tandem.ini");
  const lines = Object.entries(ssl).map(([key, text]) => `${key} = ${text}`);
  writeFileSync(configFile, `[ssl]\n${lines.join("\n")}\n${more}`);
  return readConfig({ configFile, port: 0, store: "memory" }, {});
}

async function open(ssl: Readonly<Record<string, string>>): Promise<RunningServer> {
  const server = await openServer(configOf({ ...SERVED, ...ssl }), { event() {} });
  closing.push(() => server.stop());
  return server;
}

/** Sends a request over a separate connection. */
async function get(url = "", options: RequestOptions = {}) {
  const asked = request(url, { agent: false, ca: pem("ca.pem"), ...options }).end();
  const [answer] = await once(asked, "response");
  let text = "";
  for await (const chunk of answer) text += chunk;
  const socket = answer.socket as TLSSocket;
  return { text, name: socket.getPeerCertificate().subject.CN, version: socket.getProtocol() };
}

test("the API is served on both ports, and the node reports both URLs", async () => {
  const { url, tlsUrl } = await open({});
  expect(tlsUrl).toMatch(/^https:\/\/127\.0\.0\.1:[1-9]\d*$/);
  expect(JSON.parse((await get(tlsUrl)).text).couchdb).toBe("Welcome");
  expect(((await (await fetch(`${url}/`)).json()) as { couchdb: string }).couchdb).toBe("Welcome");
  const { tlsUrl: none, ...plain } = await openServer(configOf({}), { event() {} });
  closing.push(() => plain.stop());
  expect(none).toBe(undefined);
});

describe("as a program", () => {
  const processes = new Processes();
  afterAll(() => processes.close());
  const iniOf = (ssl: object): string =>
    `[ssl]\n${Object.entries(ssl)
      .map(([key, text]) => `${key} = ${text}\n`)
      .join("")}`;

  test("the node prints both URLs", async () => {
    const child = processes.start({ directory: processes.directory(), ini: iniOf(SERVED) });
    const urls: string[] = [];
    for await (const line of createInterface({ input: child.stdout as Readable })) {
      urls.push(...(/^listening on (.*)$/.exec(line)?.slice(1) ?? []));
      if (urls.length === 2) break;
    }
    expect(urls.map((url) => new URL(url).protocol)).toEqual(["http:", "https:"]);
    expect((await get(urls[1])).text).toContain("Welcome");
  });

  test("the node exits with a reason if a file is missing", async () => {
    const failing = processes.open({ ini: iniOf({ ...SERVED, key_file: "/nowhere/key.pem" }) });
    await expect(failing).rejects.toThrow(
      "[ssl] key_file = /nowhere/key.pem: expected a file that can be read (ENOENT)",
    );
  });
});

test("a session cookie that is set over TLS is not sent over plain connections", async () => {
  const config = configOf(SERVED, "[admins]\nroot = secret\n");
  const server = await openServer(config, { event() {} });
  closing.push(() => server.stop());
  const body = JSON.stringify({ name: "root", password: "secret" });
  const headers = { "content-type": "application/json" };
  const secure = request(`${server.tlsUrl}/_session`, {
    ...{ method: "POST", agent: false, ca: pem("ca.pem"), headers },
  }).end(body);
  const [answer] = await once(secure, "response");
  answer.resume();
  expect(answer.headers["set-cookie"]).toEqual([expect.stringMatching(/; HttpOnly; Secure$/)]);
  const plain = await fetch(`${server.url}/_session`, { method: "POST", headers, body });
  expect(plain.headers.get("set-cookie")).toMatch(/; HttpOnly$/);
});

test("a plain request to the TLS port gets no response, and the next request over TLS gets one", async () => {
  const { tlsUrl = "" } = await open({});
  await expect(fetch(tlsUrl.replace("https", "http"))).rejects.toThrow();
  expect((await get(tlsUrl)).text).toContain("Welcome");
});

test("the server stops even if a client never completes its handshake", {
  timeout: HANDSHAKE_MS_MAX / 2,
}, async () => {
  const server = await open({});
  const socket = connect(Number(new URL(server.tlsUrl ?? "").port), "127.0.0.1");
  await once(socket, "connect");
  // Connections are accepted in order. The first connection has therefore been accepted now.
  await get(server.tlsUrl);
  const closed = once(socket.on("error", () => {}).resume(), "close");
  await server.stop();
  await closed;
});

describe("files", () => {
  const encrypted = {
    cert_file: fixture("client.pem"),
    key_file: fixture("client-key-encrypted.pem"),
  };

  test("may contain a key that is encrypted with a password", async () => {
    const { tlsUrl } = await open({ ...encrypted, password: "opened" });
    expect((await get(tlsUrl)).name).toBe("client");
  });

  test.each([
    [{ cert_file: "" }, "[ssl] cert_file: expected a file, because [ssl] enable = true"],
    [{ key_file: "" }, "[ssl] key_file: expected a file, because [ssl] enable = true"],
    [
      { verify_ssl_certificates: "true" },
      "[ssl] cacert_file: expected a file, because [ssl] verify_ssl_certificates = true",
    ],
    [
      { cert_file: "/nowhere/cert.pem" },
      "[ssl] cert_file = /nowhere/cert.pem: expected a file that can be read (ENOENT)",
    ],
    [
      { cert_file: fixture("README.md") },
      `[ssl] cert_file = ${fixture("README.md")}: expected certificates in PEM`,
    ],
    [
      { key_file: fixture("README.md") },
      `[ssl] key_file = ${fixture("README.md")}: expected a private key in PEM`,
    ],
    [
      { key_file: fixture("client-key.pem") },
      `[ssl] key_file = ${fixture("client-key.pem")}: expected the key of the certificate in ${SERVED.cert_file}`,
    ],
    [
      { cacert_file: fixture("server-key.pem") },
      `[ssl] cacert_file = ${fixture("server-key.pem")}: expected certificates in PEM`,
    ],
    [encrypted, `[ssl] password: expected the password of ${encrypted.key_file}`],
    [
      { ...encrypted, password: "guessed" },
      `[ssl] password: expected the password of ${encrypted.key_file}`,
    ],
  ])(
    "with %j prevent the start of the node, and an error states the problem",
    async (ssl, message) => {
      await expect(open(ssl).finally(() => {})).rejects.toMatchObject({
        code: "CONFIG_INVALID",
        message,
      });
    },
  );

  test.each([
    ["enable", "yes", "true or false"],
    ["port", "65536", "an integer of 0 to 65535"],
    ["tls_versions", "[tlsv1, 'tlsv1.2']", "a list of tlsv1.2, tlsv1.3"],
    ["ciphers", '["ECDHE-RSA-AES128-GCM-SHA256", "NULL-NONE"]', "a list of OpenSSL's names"],
    ["secure_renegotiate", "false", "true"],
    ["verify_fun", "{module, fun}", "no value, because functions of Erlang"],
  ])(
    "the setting %s = %s is refused both at the start and over HTTP",
    async (key, text, expected) => {
      const message = `[ssl] ${key} = ${text}: expected ${expected}`;
      expect(() => configOf({ ...SERVED, [key]: text })).toThrow(message);
      const { configuration } = configOf(SERVED);
      expect(() => configuration.set("ssl", key, text)).toThrow(message);
    },
  );
});

test("a node reachable from other hosts needs an administrator, even with TLS", () => {
  const reachable = "[chttpd]\nbind_address = 0.0.0.0\n";
  expect(() => configOf(SERVED, reachable)).toThrow(
    "no administrator is configured, so the server must not listen on 0.0.0.0",
  );
  expect(configOf(SERVED, `${reachable}[admins]\na = b\n`).tls?.port).toBe(0);
});

test("the server uses the TLS versions and ciphers of the configuration", async () => {
  const cipher = "ECDHE-ECDSA-AES256-GCM-SHA384";
  const rsaCipher = cipher.replace("ECDSA", "RSA");
  const { tlsUrl } = await open({
    tls_versions: "['tlsv1.2']",
    ciphers: `["${cipher}", "${rsaCipher}"]`,
  });
  expect((await get(tlsUrl)).version).toBe("TLSv1.2");
  await expect(get(tlsUrl, { minVersion: "TLSv1.3" })).rejects.toThrow();
  const other = { ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256" };
  await expect(get(tlsUrl, other)).rejects.toThrow();
});

describe("clients", () => {
  const verified = { verify_ssl_certificates: "true", cacert_file: fixture("ca.pem") };
  const known = { cert: pem("client.pem"), key: pem("client-key.pem") };

  test("need no certificate if verification is off", async () => {
    const { tlsUrl } = await open({});
    expect((await get(tlsUrl, known)).text).toContain("Welcome");
  });

  test("are accepted with a certificate of the configured authority, or without a certificate", async () => {
    const { tlsUrl } = await open(verified);
    expect((await get(tlsUrl, known)).text).toContain("Welcome");
    expect((await get(tlsUrl)).text).toContain("Welcome");
  });

  test("are refused with a certificate of a different authority", async () => {
    // The server's own certificate is the only authority, and has signed no other certificate.
    const { tlsUrl } = await open({ ...verified, cacert_file: fixture("server.pem") });
    await expect(get(tlsUrl, known)).rejects.toThrow();
    expect((await get(tlsUrl)).text).toContain("Welcome");
  });

  test.each([
    ["0", false],
    ["1", true],
    [undefined, true],
  ])(
    "with ssl_certificate_max_depth = %s and one intermediate certificate are accepted: %s",
    async (depth, comesIn) => {
      const { tlsUrl } = await open({
        verify_ssl_certificates: "true",
        cacert_file: fixture("chain-ca.pem"),
        ...(depth === undefined ? {} : { ssl_certificate_max_depth: depth }),
      });
      const chained = { cert: pem("chain-client.pem"), key: pem("chain-client-key.pem") };
      const answer = get(tlsUrl, chained);
      if (comesIn) expect((await answer).text).toContain("Welcome");
      else await expect(answer).rejects.toThrow();
      expect((await get(tlsUrl)).text).toContain("Welcome");
    },
  );

  test("need a certificate if the configuration requires one", async () => {
    const { tlsUrl } = await open({ ...verified, fail_if_no_peer_cert: "true" });
    expect((await get(tlsUrl, known)).text).toContain("Welcome");
    await expect(get(tlsUrl)).rejects.toThrow();
  });
});

/** Returns a clock whose sleeps last until a test wakes the sleepers. */
function heldClock(clock: Clock) {
  let wake: (() => void) | undefined;
  let fellAsleep: () => void = () => {};
  let asleep = new Promise<void>((resolve) => {
    fellAsleep = resolve;
  });
  return {
    clock: {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
      sleep: (_: number, signal?: AbortSignal) =>
        new Promise<void>((resolve) => {
          wake = resolve;
          signal?.addEventListener("abort", () => resolve(), { once: true });
          fellAsleep();
        }),
    },
    /** Wakes all sleepers, and resolves when they have finished their work. */
    async tick(): Promise<void> {
      await asleep;
      asleep = new Promise<void>((resolve) => {
        fellAsleep = resolve;
      });
      wake?.();
      await asleep;
    },
  };
}

describe("changed files", () => {
  async function openRefreshed() {
    const files = { certificate: join(folder, "cert.pem"), key: join(folder, "key.pem") };
    const place = (name: string, path: string): void => {
      copyFileSync(fixture(name), `${path}.new`);
      renameSync(`${path}.new`, path);
    };
    place("server.pem", files.certificate);
    place("server-key.pem", files.key);
    const ssl = { ...SERVED, cert_file: files.certificate, key_file: files.key };
    const { tls } = configOf(ssl);
    if (tls === undefined) throw new Error("TLS is enabled");
    const events: string[] = [];
    const trace: Trace = {
      event: (name, fields) => events.push(`${name} ${JSON.stringify(fields)}`),
    };
    const system = createSystemRuntime(trace);
    const { clock, tick } = heldClock(system.clock);
    const server = await openTlsServer({
      port: 0,
      bindAddress: "127.0.0.1",
      api: async () => ({ status: 200, headers: {}, body: "served" }),
      trace,
      certificates: readServerCertificates(tls),
      clients: undefined,
    });
    closing.push(() => server.close());
    const runtime = { ...system, clock };
    const refresher = new CertificateRefresher(runtime, tls, server, stateOfFiles(tls));
    const stopping = new AbortController();
    const running = refresher.run(stopping.signal);
    closing.push(async () => {
      stopping.abort();
      await running;
    });
    const served = () => get(`https://127.0.0.1:${server.port}/`);
    return { files, place, events, tick, served };
  }

  test("apply to new connections after they are replaced", async () => {
    const { files, place, events, tick, served } = await openRefreshed();
    await tick();
    expect([(await served()).name, events]).toEqual(["server", []]);
    place("client.pem", files.certificate);
    place("client-key.pem", files.key);
    await tick();
    expect([(await served()).name, events]).toEqual(["client", ["tls.certificates-read {}"]]);
  });

  test("are ignored while they are invalid, and one log line reports this", async () => {
    const { files, place, events, tick, served } = await openRefreshed();
    place("client.pem", files.certificate);
    await tick();
    await tick();
    const reason = `[ssl] key_file = ${files.key}: expected the key of the certificate in ${files.certificate}`;
    const refused = `tls.certificates-refused ${JSON.stringify({ error: reason })}`;
    expect([(await served()).name, events]).toEqual(["server", [refused]]);
    place("client-key.pem", files.key);
    await tick();
    expect((await served()).name).toBe("client");
    rmSync(files.key);
    await tick();
    expect((await served()).name).toBe("client");
    expect(events.slice(1)).toEqual([
      "tls.certificates-read {}",
      expect.stringContaining("expected a file that can be read (ENOENT)"),
    ]);
  });
});
