/**
 * A text that is held as characters or as UTF-8, and converted into the other form on request. A text that nothing
 * reads is never converted.
 */
import { BYTES_PER_UNIT_MAX, utf8Decode, utf8Encode } from "./bytes.ts";

export class Utf8Text {
  #text: string | undefined;
  #bytes: Uint8Array | undefined;

  private constructor(text: string | undefined, bytes: Uint8Array | undefined) {
    this.#text = text;
    this.#bytes = bytes;
  }

  static of(text: string): Utf8Text {
    return new Utf8Text(text, undefined);
  }

  /** `bytes` must be valid UTF-8, and stay as they are. */
  static encoded(bytes: Uint8Array): Utf8Text {
    return new Utf8Text(undefined, bytes);
  }

  get text(): string {
    this.#text ??= utf8Decode(this.#bytes as Uint8Array);
    return this.#text;
  }

  /** Not to be changed. */
  get bytes(): Uint8Array {
    this.#bytes ??= utf8Encode(this.#text as string);
    return this.#bytes;
  }

  /** In bytes, or in units of the text while it has no bytes: exact enough to bound memory. */
  get length(): number {
    return this.#bytes?.length ?? (this.#text as string).length;
  }

  /** Most texts are so far from a limit that they need not be encoded for it. */
  exceedsBytes(byteCountMax: number): boolean {
    const isNear = this.length * BYTES_PER_UNIT_MAX > byteCountMax;
    return isNear && this.bytes.length > byteCountMax;
  }
}
