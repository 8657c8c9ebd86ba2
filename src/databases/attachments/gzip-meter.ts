/**
 * Measures the decoded length of gzipped bytes that pass through, by decoding them concurrently, in
 * little memory.
 */
import { BoundedQueue, type Compression, OperationalError } from "../../base/index.ts";

const QUEUE_CHUNKS = 8;

export class GzipMeter {
  readonly #queue = new BoundedQueue<Uint8Array>({ itemCountMax: QUEUE_CHUNKS });
  readonly #count: Promise<{ readonly length: number } | { readonly error: unknown }>;
  #counted = false;

  constructor(compression: Compression) {
    this.#count = this.#run(compression);
  }

  async *tap(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const chunk of chunks) {
        await this.#push(chunk);
        yield chunk;
      }
    } finally {
      this.#queue.close();
    }
  }

  /**
   * Resolves with the decoded length once all bytes have been decoded. Throws
   * STORE_ATTACHMENT_ENCODING_INVALID if they are not gzip.
   */
  async decodedLength(): Promise<number> {
    const result = await this.#count;
    if ("length" in result) return result.length;
    throw new OperationalError(
      "STORE_ATTACHMENT_ENCODING_INVALID",
      "The attachment is not in the declared encoding",
      { encoding: "gzip" },
      { cause: result.error },
    );
  }

  async #run(
    compression: Compression,
  ): Promise<{ readonly length: number } | { readonly error: unknown }> {
    let length = 0;
    try {
      for await (const chunk of compression.gunzip(this.#queued())) length += chunk.length;
      return { length };
    } catch (error) {
      return { error };
    } finally {
      // The count is complete: bytes after the end of the gzip stream, or after an error, are not
      // decoded.
      this.#counted = true;
      this.#queue.close();
    }
  }

  async #push(chunk: Uint8Array): Promise<void> {
    if (this.#counted) return;
    try {
      await this.#queue.push(chunk);
    } catch (error) {
      if (!this.#counted) throw error;
    }
  }

  async *#queued(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const chunks = await this.#queue.takeUpTo(QUEUE_CHUNKS);
      if (chunks === undefined) return;
      yield* chunks;
    }
  }
}
