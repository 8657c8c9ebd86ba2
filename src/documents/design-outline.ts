/**
 * The members of a design document that the server itself needs. The document can be several
 * megabytes long.
 */
import { type JsonValue, outlineJsonYielding, type Yielder } from "../base/index.ts";

/** Depth of the members that the server needs: views with their functions, and filters. */
const MEMBER_DEPTH = 2;

/** The members of a design document, scanned on demand. */
export class DesignOutline {
  readonly #whole: JsonValue;
  readonly #yielder: Yielder;
  readonly #opened = new Map<string, JsonValue | undefined>();

  private constructor(whole: JsonValue, yielder: Yielder) {
    this.#whole = whole;
    this.#yielder = yielder;
  }

  /** Scans the UTF-8 text of a document or its body, and yields to the event loop meanwhile. */
  static async of(text: Uint8Array, yielder: Yielder): Promise<DesignOutline> {
    return new DesignOutline(await outlineJsonYielding(text, { depthMax: 1 }, yielder), yielder);
  }

  /** Returns a member scanned to depth 2, or `undefined` if it does not exist. */
  async member(name: string): Promise<JsonValue | undefined> {
    if (!this.#opened.has(name)) {
      const closed = this.#whole.member(name);
      const options = { depthMax: MEMBER_DEPTH };
      const opened = closed && (await outlineJsonYielding(closed.bytes, options, this.#yielder));
      this.#opened.set(name, opened);
    }
    return this.#opened.get(name);
  }
}
