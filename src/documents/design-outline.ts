/** What the server itself asks of a design document. It may have megabytes, of which hardly any concern it. */
import { type JsonValue, outlineJsonInTurns, type Turns } from "../base/index.ts";

/** The members of a member: views and what they have, filters. */
const MEMBER_DEPTH = 2;

/** The members of a design document. They are looked into when they are asked for; the others are passed over. */
export class DesignOutline {
  readonly #whole: JsonValue;
  readonly #turns: Turns;
  readonly #opened = new Map<string, JsonValue | undefined>();

  private constructor(whole: JsonValue, turns: Turns) {
    this.#whole = whole;
    this.#turns = turns;
  }

  /** Of the text of a document or of its body, in UTF-8; with turns for others. */
  static async of(text: Uint8Array, turns: Turns): Promise<DesignOutline> {
    return new DesignOutline(await outlineJsonInTurns(text, { depthMax: 1 }, turns), turns);
  }

  /** To be cut to the members of its members; undefined when there is none of that name. */
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
