/**
 * Decodes responses that a server or proxy compressed although the client did not accept
 * compression. All code that reads, limits or charges a body therefore counts decoded bytes.
 */
import { type Compression, OperationalError, peekChunk } from "../../base/index.ts";
import { type Fetch, type FetchResponse, RequestFailedError } from "../fetch.ts";

/** Values of `Content-Encoding` that some servers send for an unencoded body. */
const PLAIN: ReadonlySet<string> = new Set(["", "identity", "none", "binary", "utf-8", "utf8"]);

/** Maximum number of nested codings. More indicate a decompression bomb. */
const CODINGS_MAX = 2;

/** Thrown for an unsupported content coding, named in `details.reason`. Retrying is pointless. */
export class EncodingUnsupportedError extends OperationalError {
  override readonly name = "EncodingUnsupportedError";

  constructor(encoding: string) {
    super("HTTP_ENCODING_UNSUPPORTED", "The response cannot be decoded", {
      reason: `a response has the Content-Encoding ${JSON.stringify(encoding.slice(0, 100))}; expected none, gzip, deflate or br`,
    });
  }
}

/** Thrown if the body is not in the coding named by its header, or ended prematurely. */
export class EncodingDamagedError extends OperationalError {
  override readonly name = "EncodingDamagedError";
  readonly isBrokenOff: boolean;

  constructor(encoding: string, cause: unknown) {
    super(
      "HTTP_ENCODING_DAMAGED",
      "The response cannot be decoded",
      {
        reason: `the body of a response does not match its Content-Encoding ${JSON.stringify(encoding)}`,
      },
      { cause },
    );
    this.isBrokenOff = (cause as { readonly code?: unknown }).code === "Z_BUF_ERROR";
  }
}

/** Decodes responses, except those to requests that name accepted encodings. */
export function withDecoding(fetch: Fetch, compression: Compression): Fetch {
  return async (request) => {
    const response = await fetch(request);
    const encoding = response.headers.get("content-encoding");
    if (encoding === undefined || request.headers?.["accept-encoding"] !== undefined) {
      return response;
    }
    const { method, url } = request;
    const failed = (error: unknown): unknown => {
      if (!(error instanceof EncodingDamagedError)) return error;
      const { cause } = error;
      const code = error.isBrokenOff ? "BODY_BROKEN_OFF" : "BODY_MISENCODED";
      return new RequestFailedError({ method, url, cause: code }, { cause });
    };
    try {
      return decoded(response, guarded(decodedBody(compression, encoding, response.body), failed));
    } catch (error) {
      response.discard();
      throw error;
    }
  };
}

/**
 * Decodes a body. Throws an EncodingUnsupportedError before the body is read. Reading can throw an
 * EncodingDamagedError.
 */
export function decodedBody(
  compression: Compression,
  encoding: string | undefined,
  body: AsyncIterable<Uint8Array>,
): AsyncIterable<Uint8Array> {
  const codings = (encoding ?? "")
    .split(",")
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => !PLAIN.has(coding));
  if (codings.length > CODINGS_MAX) throw new EncodingUnsupportedError(encoding as string);
  return codings.reduceRight((rest, coding) => {
    const decode = decoderOf(compression, coding);
    if (decode === undefined) throw new EncodingUnsupportedError(encoding as string);
    const damaged = (error: unknown): unknown =>
      isDamaged(error) ? new EncodingDamagedError(coding, error) : error;
    return guarded(unlessPlain(rest, coding, decode), damaged);
  }, body);
}

type Decode = (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;

function decoderOf(compression: Compression, coding: string): Decode | undefined {
  if (coding === "gzip" || coding === "x-gzip") return (chunks) => compression.gunzip(chunks);
  if (coding === "deflate") return (chunks) => compression.inflate(chunks);
  return coding === "br" ? (chunks) => compression.unbrotli(chunks) : undefined;
}

/** First byte of every gzip file. No JSON or multipart body begins with this byte. */
const GZIP_BYTE = 0x1f;

/**
 * Decodes the body only if it is actually encoded. A response without a body (such as a 304), or
 * one that a proxy has already decoded, can have a `content-encoding` header, too.
 */
async function* unlessPlain(
  body: AsyncIterable<Uint8Array>,
  coding: string,
  decode: Decode,
): AsyncIterable<Uint8Array> {
  const peeked = await peekChunk(body);
  if (peeked === undefined) return;
  const { first, whole } = peeked;
  yield* coding.endsWith("gzip") && first[0] !== GZIP_BYTE ? whole : decode(whole);
}

/** Yields the body, with its errors converted by `named`. */
async function* guarded(
  body: AsyncIterable<Uint8Array>,
  named: (error: unknown) => unknown,
): AsyncIterable<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw named(error);
  }
}

/**
 * Returns the response with the decoded body. The encoding and the length of the encoded body no
 * longer apply, so their headers are removed.
 */
function decoded(response: FetchResponse, body: AsyncIterable<Uint8Array>): FetchResponse {
  const headers = new Map(response.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  return { status: response.status, headers, body, discard: () => response.discard() };
}

/** Whether the error comes from the decoder rather than from the connection. */
function isDamaged(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" && /^(Z_|ERR__ERROR_|ERR_BROTLI|ERR_PADDING)/.test(code);
}
