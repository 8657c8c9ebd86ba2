/** Values in a JSON text by their paths. */
import { type JsonValue, outlineJsonInTurns } from "./json-text.ts";
import type { Turns } from "./turns.ts";

/** A text of more is looked through level by level, as far as somebody looks: rows for all of it may take more memory than itself. */
const SHORT_BYTES = 65_536;

export class JsonFields {
  readonly #root: JsonValue;
  readonly #turns: Turns;
  /** Values that were looked through later, by their paths. */
  readonly #opened = new Map<string, JsonValue>();

  private constructor(root: JsonValue, turns: Turns) {
    this.#root = root;
    this.#turns = turns;
  }

  /** Of a valid text, whose paths mostly have so many segments. A long one takes several turns. */
  static async open(bytes: Uint8Array, depth: number, turns: Turns): Promise<JsonFields> {
    const depthMax = bytes.length > SHORT_BYTES ? 1 : depth;
    return new JsonFields(await outlineJsonInTurns(bytes, { depthMax }, turns), turns);
  }

  /** Segments of digits find elements of arrays. The last of a repeated name counts. Undefined where nothing is. */
  async at(path: readonly string[]): Promise<JsonValue | undefined> {
    let value: JsonValue | undefined = this.#root;
    for (const [index, segment] of path.entries()) {
      if (value === undefined) return undefined;
      if (value.isArray ? !DIGITS.test(segment) : !value.isObject) return undefined;
      const open: JsonValue = value.isOpen ? value : await this.#open(path.slice(0, index), value);
      value = open.isArray ? open.element(Number(segment)) : open.member(segment);
    }
    return value;
  }

  async #open(path: readonly string[], { bytes }: JsonValue): Promise<JsonValue> {
    const key = JSON.stringify(path);
    const value =
      this.#opened.get(key) ?? (await outlineJsonInTurns(bytes, { depthMax: 1 }, this.#turns));
    this.#opened.set(key, value);
    return value;
  }
}

const DIGITS = /^\d+$/;
