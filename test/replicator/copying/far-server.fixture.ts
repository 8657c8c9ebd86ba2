/**
 * A server with this API and its own store. Its `fetch` function calls the server directly, and a
 * test can intercept the requests.
 */
import type { Fetch, FetchRequest, FetchResponse } from "../../../src/http-client/index.ts";
import { bodyBytes, type OpenApi, openApi, SETTINGS } from "../../api/api.fixture.ts";

export const FAR_URL = "http://far";

/** Answers a request in place of the server, or forwards it by calling `pass`. */
export type Intercept = (
  request: FetchRequest,
  pass: () => Promise<FetchResponse>,
) => Promise<FetchResponse>;

export interface FarServer extends Pick<OpenApi, "ask"> {
  readonly fetch: Fetch;
  /** All received requests, each as a string such as `POST /b/_bulk_docs`. */
  readonly asked: readonly string[];
}

export async function openFarServer(
  intercept: Intercept = (_, pass) => pass(),
): Promise<FarServer> {
  const { ask, api } = await openApi({
    parts: { settings: { ...SETTINGS, compressesResponses: false } },
  });
  const asked: string[] = [];
  const pass = async ({ method, url, headers = {}, body, signal }: FetchRequest) => {
    const { pathname, searchParams } = new URL(url);
    const bytes = await bytesOf(body);
    const response = await api({
      method,
      path: pathname,
      query: new Map(searchParams),
      headers: new Map([...Object.entries(headers), ["host", "far"]]),
      body: pieces(bytes),
      peer: "127.0.0.1",
      isSecure: false,
      signal,
    });
    const answered: FetchResponse = {
      status: response.status,
      headers: new Map(
        Object.entries(response.headers).map(([name, value]) => [name.toLowerCase(), value]),
      ),
      body: pieces(response.body),
      discard: () => {},
    };
    return answered;
  };
  return {
    ask,
    asked,
    fetch: (request) => {
      asked.push(`${request.method} ${new URL(request.url).pathname}`);
      return intercept(request, () => pass(request));
    },
  };
}

async function bytesOf(body: FetchRequest["body"]): Promise<Uint8Array> {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    return bodyBytes(body ?? "");
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.stream()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* pieces(
  body: string | Uint8Array | AsyncIterable<Uint8Array | string> | undefined,
): AsyncGenerator<Uint8Array> {
  if (body === undefined) return;
  if (typeof body === "string" || body instanceof Uint8Array) yield Buffer.from(body);
  else for await (const piece of body) yield Buffer.from(piece);
}
