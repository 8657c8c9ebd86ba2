/**
 * Compresses responses with gzip for clients that accept it. CouchDB compresses only attachments.
 */
import { type Compression, utf8Encode } from "../../base/index.ts";
import type { ApiRequest, ApiResponse } from "./exchange.ts";

/** Minimum size for compression. A smaller response fits into one packet anyway. */
const BYTES_MIN = 1_400;
/** A fast level: JSON compresses well at any level, and the client is waiting. */
const LEVEL = 1;
/**
 * Feeds that are not compressed: their clients need each row immediately, and not all clients
 * decompress incrementally.
 */
const LIVE_FEEDS = new Set(["continuous", "eventsource"]);

/**
 * The response in the form sent to the client. Streams are flushed piece by piece, so that
 * heartbeats arrive on time.
 */
export async function compressed(
  compression: Compression,
  { method, query, headers: asked }: ApiRequest,
  response: ApiResponse,
): Promise<ApiResponse> {
  const { status, headers, body } = response;
  const isPackable =
    method !== "HEAD" &&
    body !== undefined &&
    !("Content-Encoding" in headers) &&
    /^(application\/json|text\/)/.test(headers["Content-Type"] ?? "") &&
    headers["Accept-Ranges"] === undefined &&
    !LIVE_FEEDS.has(query.get("feed") ?? "");
  if (!isPackable || !acceptsGzip(asked.get("accept-encoding"))) return response;
  const packed = {
    ...headers,
    "Content-Encoding": "gzip",
    Vary: [headers.Vary, "Accept-Encoding"].filter((name) => name !== undefined).join(", "),
  };
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    const { "Content-Length": _, ...streamed } = packed as Record<string, string>;
    const pieces = compression.gzip(bytesOf(body), { level: LEVEL, flushesEach: true });
    return { status, headers: streamed, body: pieces };
  }
  const bytes = typeof body === "string" ? utf8Encode(body) : body;
  if (bytes.length < BYTES_MIN) return response;
  const whole = await compression.gzipWhole(bytes, { level: LEVEL });
  return { status, headers: packed, body: whole };
}

/** Whether an `Accept-Encoding` header permits gzip. */
export function acceptsGzip(header?: string): boolean {
  return acceptsEncoding(header, "gzip") || acceptsEncoding(header, "x-gzip");
}

/** Whether an `Accept-Encoding` header permits this encoding. */
export function acceptsEncoding(header = "", encoding: string): boolean {
  return header.split(",").some((entry) => {
    const [coding = "", ...parameters] = entry.split(";").map((text) => text.trim().toLowerCase());
    const isRefused = parameters.some((text) => /^q=0(\.0*)?$/.test(text));
    return (coding === encoding || coding === "*") && !isRefused;
  });
}

async function* bytesOf(
  pieces: AsyncIterable<Uint8Array | string>,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of pieces) yield typeof piece === "string" ? utf8Encode(piece) : piece;
}
