/**
 * Wire format of batched requests to another Tandem and of their responses (`docs/api/server.md`,
 * "Many requests at once"). CouchDB has no counterpart. Requests and responses are sequences of
 * messages: a line of JSON (the head), followed by a body whose length is the head's member
 * `bytes`. Empty lines between messages are heartbeats.
 */
import { concatBytes, utf8Decode, utf8Encode } from "../base/index.ts";
import { badRequest } from "./protocol-error.ts";

/** Media type of batch requests and responses. */
export const BATCH_TYPE = "application/vnd.tandem.batch";

/** Maximum number of messages in a batch. */
export const BATCH_MESSAGES_MAX = 100;
/** Maximum body length of one message. */
export const BATCH_BODY_BYTES_MAX = 256 * 1024;

/**
 * Maximum length of a head. It contains a path, which can have long names, and headers. Servers
 * limit headers to about the same length.
 */
const HEAD_BYTES_MAX = 65_536;

export interface BatchMessage {
  readonly head: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** Encodes a message as a sequence of pieces. Adds `bytes` to `head`. */
export function batchMessage(head: BatchMessage["head"], body: Uint8Array): readonly Uint8Array[] {
  return [utf8Encode(`${JSON.stringify({ ...head, bytes: body.length })}\n`), body];
}

/** Incremental parser for batches. */
export class BatchReader {
  /** Unparsed input, joined only when it contains a complete line or body. */
  #pieces: Uint8Array[] = [];
  #byteCount = 0;
  /** Head of the message whose body is incomplete. */
  #begun: { readonly head: BatchMessage["head"]; readonly byteCount: number } | undefined;
  #messageCount = 0;

  /** Whether the input so far ends at a message boundary. */
  get isWhole(): boolean {
    return this.#begun === undefined && this.#byteCount === 0;
  }

  /**
   * Returns the messages that `piece` completes. Throws a ProtocolError 400 for malformed input.
   */
  push(piece: Uint8Array): readonly BatchMessage[] {
    this.#pieces.push(piece);
    this.#byteCount += piece.length;
    const isEnough =
      this.#begun === undefined
        ? piece.includes(LINE_FEED) || this.#byteCount > HEAD_BYTES_MAX
        : this.#byteCount >= this.#begun.byteCount;
    if (!isEnough) return [];
    const messages: BatchMessage[] = [];
    const bytes = concatBytes(this.#pieces);
    let at = 0;
    for (;;) {
      if (this.#begun === undefined) {
        const end = bytes.indexOf(LINE_FEED, at);
        if ((end < 0 ? bytes.length : end) - at > HEAD_BYTES_MAX) throw this.#wrong("is too long");
        if (end < 0) break;
        if (end > at) this.#begun = this.#headOf(bytes.subarray(at, end));
        at = end + 1;
        continue;
      }
      const { head, byteCount } = this.#begun;
      if (bytes.length - at < byteCount) break;
      messages.push({ head, body: bytes.subarray(at, at + byteCount) });
      at += byteCount;
      this.#begun = undefined;
      this.#messageCount++;
    }
    this.#byteCount = bytes.length - at;
    this.#pieces = this.#byteCount === 0 ? [] : [bytes.subarray(at)];
    return messages;
  }

  #headOf(line: Uint8Array): { readonly head: BatchMessage["head"]; readonly byteCount: number } {
    let head: unknown;
    try {
      head = JSON.parse(utf8Decode(line));
    } catch {
      head = undefined;
    }
    if (typeof head !== "object" || head === null || Array.isArray(head)) {
      throw this.#wrong("must be a JSON object on one line");
    }
    const byteCount: unknown = (head as BatchMessage["head"]).bytes;
    if (!Number.isSafeInteger(byteCount) || (byteCount as number) < 0) {
      throw this.#wrong("must state `bytes`, the length of its body");
    }
    if ((byteCount as number) > BATCH_BODY_BYTES_MAX) {
      throw this.#wrong(`has more than ${BATCH_BODY_BYTES_MAX} \`bytes\``);
    }
    if (this.#messageCount >= BATCH_MESSAGES_MAX) {
      throw badRequest(`A batch must not have more than ${BATCH_MESSAGES_MAX} messages`);
    }
    return { head: head as BatchMessage["head"], byteCount: byteCount as number };
  }

  #wrong(what: string): Error {
    return badRequest(`The head of message ${this.#messageCount} of the batch ${what}`);
  }
}

const LINE_FEED = 0x0a;
