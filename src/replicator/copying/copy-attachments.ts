/** Streams attachments from source to target, and attributes failures to one side. */
import type { AttachmentStream } from "../endpoints/endpoint.ts";

/**
 * Thrown if the source failed to deliver an attachment while it was being written to the target.
 */
export class AttachmentsBroken extends Error {
  constructor(cause: unknown) {
    super("The source aborted an attachment", { cause });
  }
}

/**
 * Wraps attachments, and records the source's first error. Errors of the consumer are not recorded.
 */
export class AttachmentReading implements AsyncIterable<AttachmentStream> {
  /** The source's first error, if any. */
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
        // Only errors of the source are caught here: an error of the consumer is thrown at `yield`.
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
