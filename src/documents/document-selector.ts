/**
 * A selector applied to documents, in this thread or, if it would block other requests, in the
 * sandbox.
 */
import { type JsonText, parseJson, printJson } from "../base/index.ts";
import type { Share } from "../databases/index.ts";
import { compileSelector, type Selector, selectorWeight } from "../protocol/index.ts";
import type { DesignFunctions } from "./design-functions.ts";
import type { SandboxArgument } from "./sandbox-run.ts";

/** Cost of parsing a byte. The unit is the cost of checking a condition. */
const PARSING_WEIGHT = 10;
/**
 * Maximum work in this thread: the document's length in bytes, times the weight of the selector and
 * of parsing. This much work takes a few milliseconds, or 20 ms for the worst selectors. It allows
 * documents of 300 kB for a selector with three conditions, and of 5 kB for a selector with a
 * thousand.
 */
const BRIEF_WORK_MAX = 4_000_000;

/** Sandbox and time limit for expensive selectors. */
export interface SelectorLimits extends Pick<DesignFunctions, "sandbox" | "timeoutMs"> {
  readonly share: Share;
  /** Aborts when the result is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

export class DocumentSelector {
  readonly #selector: Selector;
  readonly #matches: (document: unknown) => boolean;
  readonly #bytesMax: number;
  #text: JsonText | undefined;

  /** Compiles the selector. Throws a ProtocolError that describes the error in the selector. */
  constructor(selector: Selector) {
    this.#selector = selector;
    this.#matches = compileSelector(selector);
    this.#bytesMax = BRIEF_WORK_MAX / (PARSING_WEIGHT + selectorWeight(selector));
  }

  /** Whether applying the selector to a document of this size takes only milliseconds. */
  isBrief(byteCount: number): boolean {
    return byteCount <= this.#bytesMax;
  }

  /**
   * Applies the selector to a document for which `isBrief` is true. The document is a value of
   * `parseJson`.
   */
  matchesJson(document: unknown): boolean {
    return this.#matches(document);
  }

  /**
   * Applies the selector to a document in wire form. Throws a SandboxError if this takes longer
   * than `timeoutMs`.
   */
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
