/** A selector that is held against documents: in this turn, or in the sandbox where that would keep others waiting. */
import { type JsonText, parseJson, printJson } from "../base/index.ts";
import type { Share } from "../databases/index.ts";
import { compileSelector, type Selector, selectorWeight } from "../protocol/index.ts";
import type { DesignFunctions } from "./design-functions.ts";
import type { SandboxArgument } from "./sandbox-run.ts";

/** To parse a byte takes as long as to hold some conditions against it. */
const PARSING_WEIGHT = 10;
/**
 * Weight times bytes: some milliseconds, of which the worst selectors make twenty. A selector of three conditions is held against 300 kB
 * here, one of a thousand against 5 kB.
 */
const BRIEF_WORK_MAX = 4_000_000;

/** Where selectors run that take long, and for how long. */
export interface SelectorLimits extends Pick<DesignFunctions, "sandbox" | "timeoutMs"> {
  readonly share: Share;
  /** Aborts when the answer is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

export class DocumentSelector {
  readonly #selector: Selector;
  readonly #matches: (document: unknown) => boolean;
  readonly #bytesMax: number;
  #text: JsonText | undefined;

  /** Throws a ProtocolError that names what is wrong with the selector. */
  constructor(selector: Selector) {
    this.#selector = selector;
    this.#matches = compileSelector(selector);
    this.#bytesMax = BRIEF_WORK_MAX / (PARSING_WEIGHT + selectorWeight(selector));
  }

  /** Whether a document of so many bytes is held against it within some milliseconds. */
  isBrief(byteCount: number): boolean {
    return byteCount <= this.#bytesMax;
  }

  /** Whether a document matches for which that is brief. It is a value of `parseJson`. */
  matchesJson(document: unknown): boolean {
    return this.#matches(document);
  }

  /** Whether a document in its form on the wire matches. Throws a SandboxError when that takes longer than a function may. */
  async matches(
    document: SandboxArgument,
    { sandbox, timeoutMs, share, signal }: SelectorLimits,
  ): Promise<boolean> {
    if (this.isBrief(document.length)) return this.matchesJson(parseJson(document.text()));
    this.#text ??= printJson(this.#selector);
    return sandbox.matches({
      selector: this.#text,
      document: document.pieces(),
      timeoutMs,
      share,
      signal,
    });
  }
}
