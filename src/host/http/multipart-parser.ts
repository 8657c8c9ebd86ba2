/** Implements the `MultipartParser` interface with Dicer, busboy's streaming parser. */
import { Readable } from "node:stream";
import { Dicer } from "@fastify/busboy";
import { OperationalError } from "../../base/index.ts";
import { type MultipartPart, ProtocolError } from "../../protocol/index.ts";

/**
 * Event of the parser. Few events are queued, because reading of the source pauses while a part's
 * body is read.
 */
type Event =
  | { readonly kind: "part"; readonly part: MultipartPart }
  | { readonly kind: "end" }
  | { readonly kind: "error"; readonly error: unknown };

/** Maximum number of consecutive bytes outside part bodies, far above what servers send. */
const AROUND_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Maximum length of a boundary. RFC 2046 allows 70 bytes. Dicer searches for at most 256 bytes,
 * including four bytes that it puts before the boundary.
 */
const BOUNDARY_BYTES_MAX = 200;

export async function* parseMultipart(
  chunks: AsyncIterable<Uint8Array>,
  boundary: string,
): AsyncIterable<MultipartPart> {
  const boundaryBytes = Buffer.byteLength(boundary);
  if (boundaryBytes === 0 || boundaryBytes > BOUNDARY_BYTES_MAX) {
    const reason = `The boundary has ${boundaryBytes} bytes; expected 1 to ${BOUNDARY_BYTES_MAX}`;
    throw new ProtocolError(400, "bad_request", reason);
  }
  const events: Event[] = [];
  let wake: () => void = () => {};
  const announce = (event: Event): void => {
    events.push(event);
    wake();
  };
  const dicer = new Dicer({ boundary });
  let current: Readable | undefined;
  let aroundBytes = 0;
  const bounded = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      yield chunk;
      aroundBytes += chunk.length;
      if (aroundBytes > AROUND_BYTES_MAX)
        throw new Error("The headers of a multipart part are too long");
    }
  };
  const onPartRead = (): void => {
    aroundBytes = 0;
  };
  dicer.on("part", (stream) => {
    current = stream;
    const headers = new Map<string, string>();
    let hasHeaders = false;
    stream.on("header", (header: object) => {
      hasHeaders = true;
      for (const [name, values] of Object.entries(header as Record<string, string[]>)) {
        headers.set(name.toLowerCase(), decoded(values.join(", ")));
      }
      announce({ kind: "part", part: { headers, body: bytesOf(stream, onPartRead) } });
    });
    // Dicer drops a part that ends within its headers, without an error. It emits the headers
    // before the stream becomes readable.
    stream.once("readable", () => {
      if (!hasHeaders)
        announce({ kind: "error", error: new Error("The headers of a part end early") });
    });
    stream.on("error", (error: unknown) => announce({ kind: "error", error }));
  });
  dicer.on("finish", () => announce({ kind: "end" }));
  dicer.on("error", (error: unknown) => announce({ kind: "error", error }));
  const source = Readable.from(bounded(), { objectMode: false });
  source.on("error", (error) => {
    announce({ kind: "error", error });
    // The pipe does not pass this error on to Dicer, so the reader of a part would wait
    // indefinitely.
    current?.destroy(error);
  });
  source.pipe(dicer);
  try {
    for (;;) {
      const event = events.shift();
      if (event === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      if (event.kind === "end") return;
      if (event.kind === "error") throw malformed(event.error);
      yield event.part;
    }
  } finally {
    source.unpipe(dicer);
    source.destroy();
  }
}

/** Dicer decodes headers as Latin-1, but file names are usually UTF-8. Invalid UTF-8 is kept. */
function decoded(value: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(value, "latin1"));
  } catch {
    return value;
  }
}

/** The body of one part. A truncated body fails with a protocol error. */
async function* bytesOf(part: Readable, onRead: () => void): AsyncIterable<Uint8Array> {
  try {
    for await (const chunk of part) {
      onRead();
      yield chunk;
    }
  } catch (error) {
    throw malformed(error);
  }
}

function malformed(error: unknown): unknown {
  if (error instanceof OperationalError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (!/multipart|boundary|part/i.test(message)) return error;
  return new ProtocolError(400, "bad_request", `Malformed multipart body: ${message}`, {
    cause: error,
  });
}
