/** Streams attachments from source to target, and tells which side failed when they do not arrive. */
import type { AttachmentStream } from "../endpoints/endpoint.ts";

/** The source broke off what the target was to write. */
export class AttachmentsBroken extends Error {
  constructor(cause: unknown) {
    super("The source did not deliver an attachment", { cause });
  }
}

/** The same attachments; remembers the first error of the source. Errors of their reader do not count. */
export class AttachmentReading implements AsyncIterable<AttachmentStream> {
  /** Undefined as long as there is none. */
  failure: unknown;
  readonly #attachments: AsyncIterable<AttachmentStream>;

  constructor(attachments: AsyncIterable<AttachmentStream>) {
    this.#attachments = attachments;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<AttachmentStream> {
    for await (const attachment of this.#watched(this.#attachments)) {
      yield { ...attachment, body: this.#watched(attachment.body) };
    }
  }

  async *#watched<T>(items: AsyncIterable<T>): AsyncIterable<T> {
    const iterator = items[Symbol.asyncIterator]();
    try {
      for (;;) {
        // Only here does the source speak: the reader's own failure would come out of `yield`.
        const next = await iterator.next().catch((error: unknown) => {
          this.failure ??= error;
          throw error;
        });
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      await iterator.return?.();
    }
  }
}
