/**
 * A text that is held as characters or as UTF-8, and converted into the other form on request. A text that nothing
 * reads is never converted.
 */
import { BYTES_PER_UNIT_MAX, concatBytes, utf8Decode, utf8Encode } from "./bytes.ts";
import { joinInTurns, type Turns } from "./turns.ts";

/** A text in UTF-8, in pieces that nobody changes: it may have megabytes, which are joined only where they must be. */
export type LongText = readonly Uint8Array[];

export class Utf8Text {
  #text: string | undefined;
  #bytes: Uint8Array | undefined;
  /** Until they are joined. */
  #pieces: LongText | undefined;

  private constructor(text: string | undefined, bytes?: Uint8Array, pieces?: LongText) {
    this.#text = text;
    this.#bytes = bytes;
    this.#pieces = pieces;
  }

  static of(text: string): Utf8Text {
    return new Utf8Text(text);
  }

  /** `bytes` must be valid UTF-8, and stay as they are. */
  static encoded(bytes: Uint8Array): Utf8Text {
    return new Utf8Text(undefined, bytes);
  }

  /** The same of pieces, which are valid one behind the other. */
  static inPieces(pieces: LongText): Utf8Text {
    return new Utf8Text(undefined, undefined, pieces);
  }

  get text(): string {
    this.#text ??= utf8Decode(this.bytes);
    return this.#text;
  }

  /** Not to be changed. */
  get bytes(): Uint8Array {
    if (this.#bytes === undefined) {
      this.#bytes =
        this.#pieces === undefined ? utf8Encode(this.#text as string) : concatBytes(this.#pieces);
      this.#pieces = undefined;
    }
    return this.#bytes;
  }

  /** The same. Pieces are joined with turns for others. */
  async bytesInTurns(turns: Turns): Promise<Uint8Array> {
    if (this.#pieces !== undefined) {
      const joined = await joinInTurns(this.#pieces, turns);
      this.#bytes ??= joined;
      this.#pieces = undefined;
    }
    return this.bytes;
  }

  /** The bytes as they are there. */
  get pieces(): LongText {
    return this.#pieces ?? [this.bytes];
  }

  /** In bytes, or in units of the text while it has no bytes: exact enough to bound memory. */
  get length(): number {
    if (this.#bytes !== undefined) return this.#bytes.length;
    if (this.#pieces === undefined) return (this.#text as string).length;
    let byteCount = 0;
    for (const { length } of this.#pieces) byteCount += length;
    return byteCount;
  }

  /** Most texts are so far from a limit that they need not be encoded for it. */
  exceedsBytes(byteCountMax: number): boolean {
    const isNear = this.length * BYTES_PER_UNIT_MAX > byteCountMax;
    return isNear && this.bytes.length > byteCountMax;
  }
}
