/** Tests how failures are classified and located. */

import { expect, test } from "vitest";
import type { FailureClass } from "../../contract/index.ts";
import { RequestFailedError } from "../../http-client/index.ts";
import { type Endpoint, EndpointError } from "../endpoints/endpoint.ts";
import { NO_PLACE } from "../jobs/failing.ts";
import { classifyFailure, describeFailure } from "./failure.ts";
import { FailurePlaces } from "./failure-places.ts";

const request = (cause: string) =>
  new RequestFailedError({ method: "GET", url: "http://host/db", cause });
const answered = (status: number, reason = "") =>
  new EndpointError("http_error_code", "", { answer: { status, error: "e", reason } });

test.each<[unknown, FailureClass]>([
  [request("ECONNREFUSED"), "unreachable"],
  [request("ENOTFOUND"), "dns"],
  [request("UND_ERR_CONNECT_TIMEOUT"), "timeout"],
  [request("REQUEST_TIMEOUT"), "timeout"],
  [request("DEPTH_ZERO_SELF_SIGNED_CERT"), "tls"],
  [request("CERT_HAS_EXPIRED"), "tls"],
  [request("PROXY_407"), "proxy"],
  [request("PROXY_503"), "proxy"],
  [request("PROXY_TIMEOUT"), "timeout"],
  [request("UND_ERR_SOCKS5_REPLY_2"), "proxy"],
  [request("HTTP_401"), "unauthorized"],
  [request("HTTP_503"), "server_error"],
  [new EndpointError("unauthorized", ""), "unauthorized"],
  [
    new EndpointError("unauthorized", "", {
      answer: { status: 401, error: "unauthorized", reason: "You are not a server admin." },
    }),
    "forbidden",
  ],
  [new EndpointError("db_not_found", ""), "not_found"],
  [new EndpointError("max_backoff", ""), "rate_limited"],
  [answered(403), "forbidden"],
  [answered(507), "storage_full"],
  [answered(500, "enospc"), "storage_full"],
  [answered(500), "server_error"],
  [answered(418), "other"],
  [new EndpointError("checkpoint_commit_failure", "", { cause: answered(502) }), "server_error"],
  [new Error("what"), "other"],
])("the class of %s is %s", (error, expected) => {
  expect(classifyFailure(error)).toBe(expected);
});

test.each([
  [
    "ECONNREFUSED",
    "could not reach http://host/db through the proxy http://p:9: the connection was refused",
  ],
  ["ECONNRESET", "GET http://host/db through the proxy http://p:9: the connection was reset"],
])("the reason for %s behind a proxy names the proxy", (cause, reason) => {
  const details = { method: "GET", url: "http://host/db", cause, proxy: "http://p:9" };
  const error = new RequestFailedError(details);
  expect(describeFailure(error)).toEqual({ error: "http_request_failed", reason });
  expect(classifyFailure(error)).toBe(classifyFailure(request(cause)));
});

test.each([
  ["ECONNREFUSED", "the connection was refused"],
  ["ENOTFOUND", "the name of the host is unknown"],
  ["PROXY_407", "the proxy requires other credentials (407)"],
  ["PROXY_503", "the proxy responded with 503"],
  ["UND_ERR_SOCKS5_VERSION", "the proxy does not speak SOCKS 5 (UND_ERR_SOCKS5_VERSION)"],
])("locates the proxy error %s at the proxy", async (cause, sentence) => {
  const details = { method: "GET", url: "http://host/db", cause, proxy: "socks5://p:9" };
  const failed = new RequestFailedError({ ...details, isFaultOfProxy: true });
  const places = new FailurePlaces();
  const endpoint = places.watch(
    { info: async () => Promise.reject(failed) } as unknown as Endpoint,
    "source",
    { kind: "http", url: "http://host/db", headers: {} },
  );
  await expect(endpoint.info(new AbortController().signal)).rejects.toBe(failed);
  const place = { phase: "open", side: "source", host: "p:9" };
  expect(places.of(failed)).toEqual(place);
  expect(places.of(new EndpointError("error", "", { cause: failed }))).toMatchObject({
    host: "p:9",
  });
  expect(describeFailure(failed).reason).toBe(
    `could not reach http://host/db through the proxy socks5://p:9: proxy error: ${sentence}`,
  );
});

test.each([
  [
    { cause: "HTTP_503", text: '{"error":"down","reason":"in maintenance"}' },
    "GET http://host/db: the server responded with 503 down: in maintenance",
  ],
  [
    { cause: "PROXY_403", text: "<h1>Blocked</h1>", proxy: "http://p:9", isFaultOfProxy: true },
    "could not reach http://host/db through the proxy http://p:9: proxy error: the proxy responded with 403: <h1>Blocked</h1>",
  ],
  [{ cause: "HTTP_503", text: "" }, "GET http://host/db: the server responded with 503"],
])("the reason for %j contains the text of the response", (details, reason) => {
  const error = new RequestFailedError({ method: "GET", url: "http://host/db", ...details });
  expect(describeFailure(error).reason).toBe(reason);
});

test("locates a failure at the call that failed first, even if its error is the cause of another error", async () => {
  const places = new FailurePlaces();
  const address = (url: string) => ({ kind: "http" as const, url, headers: {} });
  const refused = new EndpointError("forbidden", "");
  const target = places.watch(
    { writer: { writeDocument: async () => Promise.reject(refused) } } as unknown as Endpoint,
    "target",
    address("https://b.example/db/"),
  );
  const signal = new AbortController().signal;
  const source = places.watch(
    {
      reader: { readRevision: (_: unknown, consume: () => Promise<void>) => consume() },
    } as unknown as Endpoint,
    "source",
    address("http://a.example:5984/db/"),
  );
  const revision = { id: "d", revision: "1-a", ancestors: [] };
  const writing = async () => void (await target.writer.writeDocument({} as never, signal));
  await expect(source.reader.readRevision(revision, writing, signal)).rejects.toBe(refused);
  const place = { phase: "write", side: "target", host: "b.example" };
  expect(places.of(refused)).toEqual(place);
  expect(places.of(new Error("further out", { cause: refused }))).toEqual(place);
  expect(places.of(new Error("elsewhere"))).toEqual(NO_PLACE);
  const missing = new EndpointError("filter_fetch_error", "");
  await expect(places.ofFilter(Promise.reject(missing))).rejects.toBe(missing);
  expect(places.of(missing)).toEqual({ phase: "filter", side: "source", host: "a.example:5984" });
  await expect(places.ofFilter(Promise.reject(refused))).rejects.toBe(refused);
  expect(places.of(refused)).toEqual(place);
  const document = new EndpointError("document_failed", "", { documentPhase: "read" });
  const read = { phase: "read", side: "source", host: "a.example:5984" };
  expect(places.of(document)).toEqual(read);
});
