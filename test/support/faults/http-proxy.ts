/** A reverse HTTP proxy. A test can use it to replace, modify or truncate responses. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface ProxiedRequest {
  readonly method: string;
  /** Path of the request, including the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Port of the client's side of the connection. */
  readonly fromPort: number;
}

export interface ProxiedAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Buffer | string;
  /**
   * Truncates the body after this many bytes. Then the connection is reset, or the body ends as if
   * it were complete, or the response stalls.
   */
  readonly cut?: { readonly afterBytes: number; readonly how: "reset" | "end" | "stall" };
  /** Number of pieces in which the body is sent. Pieces are a few milliseconds apart. */
  readonly dripCount?: number;
  /** Number of bytes by which the Content-Length exceeds the body. */
  readonly lengthError?: number;
}

export type Forward = (request: ProxiedRequest) => Promise<ProxiedAnswer>;
export type Intercept = (request: ProxiedRequest, forward: Forward) => Promise<ProxiedAnswer>;

export interface HttpProxy {
  readonly url: string;
  /** All requests received so far, in order. */
  readonly requests: readonly ProxiedRequest[];
  /** Resolves once this number of matching requests has arrived. Past requests count. */
  received(passes: (request: ProxiedRequest) => boolean, count?: number): Promise<void>;
  /** Sets the handler for future requests. */
  intercept(intercept: Intercept): void;
  close(): Promise<void>;
}

const DRIP_PAUSE_MS = 5;

/** Hop-by-hop headers. */
const HOP_HEADERS = ["connection", "content-length", "host", "keep-alive", "transfer-encoding"];

/**
 * Creates the proxy. Without `takesBatches`, requests arrive one by one instead of in batches
 * (decision 304), so that a test can distinguish them.
 */
export async function openHttpProxy(
  serverUrl: string,
  { takesBatches = false }: { readonly takesBatches?: boolean } = {},
): Promise<HttpProxy> {
  const requests: ProxiedRequest[] = [];
  const wake: (() => void)[] = [];
  const forward: Forward = (request) => ask(serverUrl, request);
  let current: Intercept = forward;
  const server = createServer(async (incoming, response) => {
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk);
      const request: ProxiedRequest = {
        method: incoming.method ?? "GET",
        path: incoming.url ?? "/",
        headers: Object.fromEntries(
          Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]),
        ),
        body: Buffer.concat(chunks),
        fromPort: incoming.socket.remotePort ?? 0,
      };
      if (!takesBatches && request.path.endsWith("/_tandem/_batch")) {
        return await send(response, { status: 404, body: '{"error":"not_found"}' });
      }
      requests.push(request);
      for (const come of wake.splice(0)) come();
      await send(response, await current(request, forward));
    } catch {
      // The client or the server has disconnected. The other side must not receive any more data.
      response.destroy();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async received(passes, count = 1) {
      while (requests.filter(passes).length < count) {
        await new Promise<void>((resolve) => wake.push(resolve));
      }
    },
    intercept: (intercept) => {
      current = intercept;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function ask(
  serverUrl: string,
  { method, path, headers, body }: ProxiedRequest,
): Promise<ProxiedAnswer> {
  const sent = Object.entries(headers).filter(([name]) => !HOP_HEADERS.includes(name));
  const hasBody = method !== "GET" && method !== "HEAD";
  const response = await fetch(serverUrl + path, {
    method,
    // Request a body without compression: `fetch` decodes a compressed body, but keeps its
    // Content-Encoding header.
    headers: { "accept-encoding": "identity", ...Object.fromEntries(sent) },
    redirect: "manual",
    ...(hasBody ? { body: new Uint8Array(body) } : {}),
  });
  const received = [...response.headers].filter(([name]) => !HOP_HEADERS.includes(name));
  return {
    status: response.status,
    headers: Object.fromEntries(received),
    body: Buffer.from(await response.arrayBuffer()),
  };
}

async function send(response: ServerResponse, answer: ProxiedAnswer): Promise<void> {
  const { status, headers = {}, cut, dripCount = 1, lengthError = 0 } = answer;
  const body = Buffer.from(answer.body);
  response.writeHead(status, {
    ...headers,
    // A body that is cut but ends as if it were complete is sent without a Content-Length, because
    // the length would reveal the cut.
    ...(cut?.how === "end" ? {} : { "content-length": String(body.length + lengthError) }),
  });
  if (cut === undefined && lengthError === 0) {
    const pieceLength = Math.max(1, Math.ceil(body.length / dripCount));
    for (let start = 0; start + pieceLength < body.length; start += pieceLength) {
      response.write(body.subarray(start, start + pieceLength));
      await new Promise((resolve) => setTimeout(resolve, DRIP_PAUSE_MS));
    }
    response.end(
      body.subarray(Math.max(0, Math.floor((body.length - 1) / pieceLength) * pieceLength)),
    );
    return;
  }
  const part = body.subarray(0, cut?.afterBytes ?? body.length);
  if (cut?.how === "end") {
    response.end(part);
    return;
  }
  await new Promise<void>((resolve) => {
    if (part.length === 0) {
      response.flushHeaders();
      resolve();
    } else response.write(part, () => resolve());
  });
  if (cut?.how === "stall") return;
  response.socket?.resetAndDestroy();
}
