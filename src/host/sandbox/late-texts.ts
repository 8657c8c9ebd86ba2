/**
 * Lazily transferred members of documents. A function usually reads a few small members of a large
 * document. If long members were parsed too, the sandbox's memory would hold several copies of
 * them.
 *
 * Compared with complete arguments (`node bench/databases/functions.mjs`), validating two documents
 * with an unread long member (1 or 7 MB) takes a fifth of the time. For short arguments there is no
 * difference.
 */
import { outlineJson, utf8Encode, utf8Slice } from "../../base/index.ts";

/** Length above which a member is transferred on access. */
const LATE_BYTES = 65_536;
/** Size of a chunk transferred into the sandbox. */
const PIECE_BYTES = 65_536;

/**
 * A value: the id of its JSON text, followed by its lazy members. In the JSON text, lazy members
 * are null.
 */
export type LateValue = readonly [id: number, ...late: LateMember[]];

/**
 * A lazy member. If `isPlain`, its text is the contents of a string without escapes rather than
 * JSON.
 */
type LateMember = readonly [name: string, id: number, isPlain: boolean];

export class LateTexts {
  readonly #pieces = new Map<number, readonly Uint8Array[]>();
  /** Ids are never reused, so that references kept from an earlier run are invalid. */
  #nextId = 0;

  /** Adds a value as JSON text, which must not be modified. */
  add(text: Uint8Array): LateValue {
    const late = text.length > LATE_BYTES ? longMembers(text) : [];
    const around: Uint8Array[] = [];
    let end = 0;
    for (const { start, bytes } of late) {
      around.push(text.subarray(end, start), NULL);
      end = start + bytes.length;
    }
    around.push(text.subarray(end));
    return [this.#keep(around), ...late.map((member) => this.#lateMember(member))];
  }

  /**
   * Returns the chunk at `index` of the text with this id; undefined after the last chunk, and for
   * a removed text.
   */
  piece(id: number, index: number): string | undefined {
    const piece = this.#pieces.get(id)?.[index];
    return piece && utf8Slice(piece, 0, piece.length);
  }

  /** Removes the values added since `mark`. */
  forgetSince(mark: number): void {
    for (const id of this.#pieces.keys()) if (id >= mark) this.#pieces.delete(id);
  }

  get mark(): number {
    return this.#nextId;
  }

  #lateMember({ name, bytes }: LongMember): LateMember {
    const isPlain = bytes[0] === QUOTE && !bytes.includes(BACKSLASH);
    return [name, this.#keep([isPlain ? bytes.subarray(1, -1) : bytes]), isPlain];
  }

  #keep(parts: readonly Uint8Array[]): number {
    const id = this.#nextId++;
    this.#pieces.set(id, parts.flatMap(cutText));
    return id;
  }
}

const NULL = utf8Encode("null");
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

interface LongMember {
  readonly name: string;
  readonly start: number;
  readonly bytes: Uint8Array;
}

/**
 * Returns the long members in the order of the JSON text. If several members have the same name,
 * only the last one counts.
 */
function longMembers(text: Uint8Array): LongMember[] {
  const whole = outlineJson(text, { depthMax: 1 });
  const members = new Map<string, LongMember>();
  if (!whole.isObject) return [];
  for (const { name, value } of whole.eachValue()) {
    members.delete(name);
    const { bytes } = value;
    if (bytes.length <= LATE_BYTES) continue;
    members.set(name, { name, bytes, start: bytes.byteOffset - text.byteOffset });
  }
  return [...members.values()];
}

/** Splits a UTF-8 string into chunks at character boundaries. */
function cutText(text: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + PIECE_BYTES, text.length);
    while (end < text.length && ((text[end] as number) & 0xc0) === 0x80) end--;
    pieces.push(text.subarray(start, end));
    start = end;
  }
  return pieces;
}
