/** Text held as a string or as UTF-8, and converted on demand. */
import { BYTES_PER_UNIT_MAX, concatBytes, utf8Decode, utf8Encode } from "./bytes.ts";
import { joinYielding, type Yielder } from "./yielder.ts";

/** UTF-8 text in pieces, which must not be modified. Joined only when necessary. */
export type LongText = readonly Uint8Array[];

export class Utf8Text {
  #text: string | undefined;
  #bytes: Uint8Array | undefined;
  /** Pieces of the text that have not been joined yet. */
  #pieces: LongText | undefined;

  private constructor(text: string | undefined, bytes?: Uint8Array, pieces?: LongText) {
    this.#text = text;
    this.#bytes = bytes;
    this.#pieces = pieces;
  }

  static of(text: string): Utf8Text {
    return new Utf8Text(text);
  }

  /** `bytes` must be valid UTF-8, and must not be modified. */
  static encoded(bytes: Uint8Array): Utf8Text {
    return new Utf8Text(undefined, bytes);
  }

  /** The concatenation of `pieces` must be valid UTF-8. */
  static inPieces(pieces: LongText): Utf8Text {
    return new Utf8Text(undefined, undefined, pieces);
  }

  get text(): string {
    this.#text ??= utf8Decode(this.bytes);
    return this.#text;
  }

  /** The text as UTF-8 bytes, which the caller must not modify. */
  get bytes(): Uint8Array {
    if (this.#bytes === undefined) {
      this.#bytes =
        this.#pieces === undefined ? utf8Encode(this.#text as string) : concatBytes(this.#pieces);
      this.#pieces = undefined;
    }
    return this.#bytes;
  }

  /** Like `bytes`, but yields to the event loop while joining pieces. */
  async bytesYielding(yielder: Yielder): Promise<Uint8Array> {
    if (this.#pieces !== undefined) {
      const joined = await joinYielding(this.#pieces, yielder);
      this.#bytes ??= joined;
      this.#pieces = undefined;
    }
    return this.bytes;
  }

  /** The text in UTF-8, in pieces if they have not been joined. */
  get pieces(): LongText {
    return this.#pieces ?? [this.bytes];
  }

  /**
   * Length in bytes, or in code units if the text is not encoded yet. Accurate enough to bound
   * memory.
   */
  get length(): number {
    if (this.#bytes !== undefined) return this.#bytes.length;
    if (this.#pieces === undefined) return (this.#text as string).length;
    let byteCount = 0;
    for (const { length } of this.#pieces) byteCount += length;
    return byteCount;
  }

  /**
   * Whether the text has more than `byteCountMax` bytes in UTF-8. Encodes it only if its length is
   * near the limit.
   */
  exceedsBytes(byteCountMax: number): boolean {
    const isNear = this.length * BYTES_PER_UNIT_MAX > byteCountMax;
    return isNear && this.bytes.length > byteCountMax;
  }
}
