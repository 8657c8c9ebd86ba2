/** Armed watches by key. The engine that owns the registry reports what was written. */
import { abortable } from "../base/index.ts";
import { SortedMap } from "./buffered/sorted-map.ts";
import { keyText } from "./key-bytes.ts";
import { KeyValueError } from "./kv-error.ts";
import type { TextInterval } from "./mutation.ts";
import type { Key, Watch } from "./transaction.ts";

/** Bound after the texts of all keys, in which each character stands for a byte. */
const AFTER_ALL = "\uffff";

export class WatchRegistry {
  /**
   * Sets of watches by key text, sorted so that the watches in a cleared range are found quickly; a
   * node has a watch per running job.
   */
  #watches = new SortedMap<Set<ArmedWatch>>();
  /**
   * Number of watched keys by length. Most keys of a commit have a length that no watched key has,
   * and need no lookup.
   */
  readonly #countByLength = new Map<number, number>();

  get isEmpty(): boolean {
    return this.#countByLength.size === 0;
  }

  arm(key: Key): Watch {
    const text = keyText(key);
    const watch = new ArmedWatch(() => this.#remove(text, watch));
    const watches = this.#watches.get(text);
    if (watches === undefined) {
      this.#watches.set(text, new Set([watch]));
      this.#count(text, 1);
    } else watches.add(watch);
    return watch;
  }

  /** Whether a key of this length is watched. */
  readonly hasLength = (length: number): boolean => this.#countByLength.has(length);

  /** Fires the watches of the written keys. */
  announce(writes: readonly TextInterval[]): void {
    for (const { begin, end } of writes) {
      if (this.isEmpty) return;
      if (end !== undefined) this.#fireAmong(begin, end);
      else if (this.hasLength(begin.length)) this.#fire(begin);
    }
  }

  /** Fires the watches of keys from `begin` (inclusive) to `end` (exclusive). */
  #fireAmong(begin: string, end: string): void {
    const found: string[] = [];
    this.#watches.scan(begin, end, (text) => {
      found.push(text);
      return true;
    });
    for (const text of found) this.#fire(text);
  }

  /** Fires all watches, for writes whose keys are unknown. */
  fireAll(): void {
    for (const [text] of this.#all()) this.#fire(text);
  }

  close(): void {
    const all = this.#all();
    this.#watches = new SortedMap();
    this.#countByLength.clear();
    for (const [, watches] of all) {
      for (const watch of watches) watch.close(new KeyValueError("KV_CLOSED", { closed: "store" }));
    }
  }

  #all(): readonly (readonly [text: string, watches: ReadonlySet<ArmedWatch>])[] {
    const all: (readonly [string, ReadonlySet<ArmedWatch>])[] = [];
    this.#watches.scan("", AFTER_ALL, (text, watches) => {
      all.push([text, watches]);
      return true;
    });
    return all;
  }

  #fire(text: string): void {
    const watches = this.#watches.get(text);
    if (watches === undefined) return;
    this.#watches.delete(text);
    this.#count(text, -1);
    for (const watch of watches) watch.fire();
  }

  #remove(text: string, watch: ArmedWatch): void {
    const watches = this.#watches.get(text);
    if (!watches?.delete(watch) || watches.size > 0) return;
    this.#watches.delete(text);
    this.#count(text, -1);
  }

  #count({ length }: string, delta: 1 | -1): void {
    const count = (this.#countByLength.get(length) ?? 0) + delta;
    if (count === 0) this.#countByLength.delete(length);
    else this.#countByLength.set(length, count);
  }
}

type WatchState =
  | { readonly state: "armed" }
  | { readonly state: "fired" }
  | { readonly state: "closed"; readonly error: KeyValueError };

/**
 * A watch of one caller. It is armed until it fires or is cancelled, or until the store closes. It
 * is never armed again.
 */
class ArmedWatch implements Watch {
  readonly #remove: () => void;
  #state: WatchState = { state: "armed" };
  #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];

  constructor(remove: () => void) {
    this.#remove = remove;
  }

  fired(signal?: AbortSignal): Promise<void> {
    if (this.#state.state === "closed") return Promise.reject(this.#state.error);
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#state.state === "fired") return Promise.resolve();
    const change = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
    return abortable(change, signal);
  }

  cancel(): void {
    this.#remove();
    this.close(new KeyValueError("KV_CLOSED", { closed: "watch" }));
  }

  fire(): void {
    if (this.#state.state !== "armed") return;
    this.#state = { state: "fired" };
    for (const { resolve } of this.#settle()) resolve();
  }

  close(error: KeyValueError): void {
    if (this.#state.state !== "armed") return;
    this.#state = { state: "closed", error };
    for (const { reject } of this.#settle()) reject(error);
  }

  #settle(): { resolve: () => void; reject: (error: unknown) => void }[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }
}
