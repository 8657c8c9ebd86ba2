/**
 * Texts that a function gets when it looks at them. A function that judges a document of megabytes mostly looks at a few small
 * members of it; what is long besides would be in the sandbox's memory several times over before it is a value there.
 */
import { outlineJson, utf8Encode, utf8Slice } from "../../base/index.ts";

/** Members of more are handed over when they are looked at. */
const LATE_BYTES = 65_536;
/** Of a text on its way into the sandbox. */
const PIECE_BYTES = 65_536;

/** A value by the number of its text, and those of its members that come late: the text has null for them. */
export type LateValue = readonly [id: number, ...late: LateMember[]];

/** `isPlain`: the text is not JSON, but what a string without escapes stands for. */
type LateMember = readonly [name: string, id: number, isPlain: boolean];

export class LateTexts {
  readonly #pieces = new Map<number, readonly Uint8Array[]>();
  /** No number is used twice: what a function has kept of an earlier run finds nothing. */
  #nextId = 0;

  /** Takes a JSON text. Its memory has to stay. */
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

  /** The next piece of a text; undefined behind the last one, and when the text is not there any more. */
  piece(id: number, index: number): string | undefined {
    const piece = this.#pieces.get(id)?.[index];
    return piece && utf8Slice(piece, 0, piece.length);
  }

  /** Forgets what was added since then. */
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

/** In the order of the text; of members of one name the last one counts. */
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

/** Cuts between characters. */
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
