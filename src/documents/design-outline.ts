/**
 * The members of a design document that the server itself needs. The document may be megabytes
 * long.
 */
import { type JsonValue, outlineJsonInTurns, type Turns } from "../base/index.ts";

/** Depth of the members that matter: views with their functions, and filters. */
const MEMBER_DEPTH = 2;

/** The members of a design document, scanned on demand. */
export class DesignOutline {
  readonly #whole: JsonValue;
  readonly #turns: Turns;
  readonly #opened = new Map<string, JsonValue | undefined>();

  private constructor(whole: JsonValue, turns: Turns) {
    this.#whole = whole;
    this.#turns = turns;
  }

  /** Scans the UTF-8 text of a document or its body, yielding in between. */
  static async of(text: Uint8Array, turns: Turns): Promise<DesignOutline> {
    return new DesignOutline(await outlineJsonInTurns(text, { depthMax: 1 }, turns), turns);
  }

  /** Returns a member scanned to depth 2, or `undefined` if it does not exist. */
  async member(name: string): Promise<JsonValue | undefined> {
    if (!this.#opened.has(name)) {
      const closed = this.#whole.member(name);
      const options = { depthMax: MEMBER_DEPTH };
      const opened = closed && (await outlineJsonInTurns(closed.bytes, options, this.#turns));
      this.#opened.set(name, opened);
    }
    return this.#opened.get(name);
  }
}
