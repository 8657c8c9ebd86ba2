/**
 * Looks up values in a JSON text by path. For two values in a document of 6 MB
 * (`bench/base/long-json.mjs`), the event loop is blocked for at most 17 ms. `JSON.parse` blocks it
 * for 40 ms, and its result takes 13 MB of memory.
 */

import type { Yielder } from "../yielder.ts";
import { type JsonValue, outlineJsonYielding } from "./json-text.ts";
import { LongJsonArray } from "./long-json-array.ts";

/**
 * Maximum length of a text that is scanned completely. Longer texts are scanned level by level, on
 * demand: scanning all levels would take a row per value, which needs much memory.
 */
const SHORT_BYTES = 65_536;

export class JsonFields {
  readonly #root: JsonValue;
  readonly #yielder: Yielder;
  /** Objects outlined so far, by path. */
  readonly #objects = new Map<string, JsonValue>();
  readonly #arrays = new Map<string, LongJsonArray>();

  private constructor(root: JsonValue, yielder: Yielder) {
    this.#root = root;
    this.#yielder = yielder;
  }

  /** Outlines a valid text down to `depth`, the usual path length, yielding to the event loop. */
  static async open(bytes: Uint8Array, depth: number, yielder: Yielder): Promise<JsonFields> {
    const depthMax = bytes.length > SHORT_BYTES ? 1 : depth;
    return new JsonFields(await outlineJsonYielding(bytes, { depthMax }, yielder), yielder);
  }

  /** Returns the value at the path, if it exists. If a name is repeated, the last value is used. */
  async at(path: readonly string[]): Promise<JsonValue | undefined> {
    let value: JsonValue | undefined = this.#root;
    for (const [index, segment] of path.entries()) {
      if (value === undefined) return undefined;
      if (value.isArray) {
        if (!DIGITS.test(segment)) return undefined;
        value = await this.#element(path.slice(0, index), value, Number(segment));
      } else if (value.isObject) {
        const open: JsonValue = value.isOpen
          ? value
          : await this.#open(path.slice(0, index), value);
        value = open.member(segment);
      } else return undefined;
    }
    return value;
  }

  async #element(
    path: readonly string[],
    array: JsonValue,
    index: number,
  ): Promise<JsonValue | undefined> {
    if (array.isOpen) return array.element(index);
    const key = JSON.stringify(path);
    const elements = this.#arrays.get(key) ?? new LongJsonArray(array.bytes, this.#yielder);
    this.#arrays.set(key, elements);
    return elements.at(index);
  }

  async #open(path: readonly string[], { bytes }: JsonValue): Promise<JsonValue> {
    const key = JSON.stringify(path);
    const value =
      this.#objects.get(key) ?? (await outlineJsonYielding(bytes, { depthMax: 1 }, this.#yielder));
    this.#objects.set(key, value);
    return value;
  }
}

const DIGITS = /^\d+$/;
