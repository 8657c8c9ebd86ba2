/** Malformed and unwanted requests get a client error, and the server keeps running. */
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../../support/open-process.ts";

const processes = new Processes();
let node: TandemProcess;

beforeAll(async () => {
  node = await processes.open();
  await node.call("PUT", "/films");
});
afterAll(async () => {
  expect((await node.call("GET", "/_up")).body.status).toBe("ok");
  expect(node.log()).not.toMatch(/request-failed|answer-failed/);
  await processes.close();
});

/** Returns the status of the response to these bytes. */
function statusOf(request: string | Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(node.port, "127.0.0.1", () => socket.write(request));
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1];
      if (status === undefined) return;
      socket.destroy();
      resolve(Number(status));
    });
    // An error after the response is ignored, because the server can close the connection early.
    socket.on("error", (error) => (answer === "" ? reject(error) : undefined));
    socket.on("close", () => reject(new Error(`No answer: ${answer}`)));
  });
}

const get = (target: string, ...headers: string[]): string =>
  [`GET ${target} HTTP/1.1`, "Host: localhost", "Connection: close", ...headers, "", ""].join(
    "\r\n",
  );
const put = (body: string | Buffer): Buffer => {
  const bytes = Buffer.from(body);
  const lines = ["PUT /films/doc HTTP/1.1", "Host: localhost", "Connection: close"];
  lines.push("Content-Type: application/json", `Content-Length: ${bytes.length}`, "", "");
  return Buffer.concat([Buffer.from(lines.join("\r\n")), bytes]);
};

/**
 * Headers that may occur only once. If they occur twice, a proxy and this server might interpret
 * them differently.
 */
const SINGLE_HEADERS = [
  ...["Authorization", "Content-Type", "Content-Encoding", "Destination", "Origin", "Referer"],
  ...["Sec-Fetch-Site", "X-Http-Method-Override", "X-Forwarded-Host", "X-Forwarded-Proto"],
  ...["X-Auth-CouchDB-UserName", "X-Auth-CouchDB-Roles", "X-Auth-CouchDB-Token", "Remote-User"],
];

test.each<[string, string | Buffer, number]>([
  ["endless headers", get("/", `X: ${"x".repeat(70_000)}`), 431],
  [
    "many headers",
    get("/", ...Array.from({ length: 5_000 }, (_, n) => `X-${n}: ${"x".repeat(20)}`)),
    431,
  ],
  ["an excessively long target", get(`/${"x".repeat(70_000)}`), 431],
  ["a malformed request line", "nonsense\r\n\r\n", 400],
  ["a target with a space", get("/films/a b"), 400],
  ["a header without a colon", get("/", "nonsense"), 400],
  ["a header with a line break in its name", get("/", "a\nb: c"), 400],
  ["two Content-Length headers", get("/", "Content-Length: 1", "Content-Length: 2"), 400],
  [
    "both a length and chunked encoding",
    get("/", "Content-Length: 1", "Transfer-Encoding: chunked"),
    400,
  ],
  [
    "two Transfer-Encoding headers",
    get("/", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip"),
    400,
  ],
  ["two Host headers", get("/", "Host: localhost"), 400],
  ["two Host headers in different cases", get("/", "hOsT: other"), 400],
  ...SINGLE_HEADERS.map((name): [string, string, number] => [
    `two headers ${name}`,
    get("/", `${name}: a`, `${name.toUpperCase()}: b`),
    400,
  ]),
  [
    "repeated headers whose values are lists",
    get("/", "Accept: a/b", "Accept: */*", "X-Forwarded-For: ::1", "X-Forwarded-For: ::2"),
    200,
  ],
  ["two equal Content-Type headers", get("/", "Content-Type: a/b", "content-type: a/b"), 200],
  [
    "two equal Authorization headers",
    get("/", "Authorization: Basic Og==", "Authorization: Basic Og=="),
    400,
  ],
  ["an invalid length", get("/", "Content-Length: x"), 400],
  ["a target with bytes that are not UTF-8", get("/films/%ff%fe"), 400],
  ["a target with a truncated UTF-8 character", get("/films/%c3"), 400],
  ["an invalid database name", get("/%zz"), 404],
  ["a path of dots", get("/../.."), 404],
  ["a query that is not UTF-8", get("/films/_all_docs?key=%ff"), 400],
  ["a truncated query", get("/films/_all_docs?key=%"), 400],
  ["an invalid sequence", get("/films/_changes?since=%00"), 400],
  ["an invalid revision", get("/films/a?rev=%ff"), 400],
  ["a body that is not UTF-8", put(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 400],
  ["a body with a duplicate member", put('{"a":1,"a":2}'), 400],
  ["a truncated body", put('{"a":'), 400],
  ["an excessively nested body", put(`${'{"a":'.repeat(1_000_000)}1`), 400],
  ["excessively nested lists", put(`{"a":${"[".repeat(1_000_000)}`), 400],
  ["an invalid number", put('{"a":01}'), 400],
  ["an invalid version", "GET / HTTP/9.9\r\n\r\n", 400],
  ["an invalid method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 400],
])("a request with $0 gets status $2", async (_, request, status) => {
  expect(await statusOf(request)).toBe(status);
});
