/** Reference model: the store as a sorted list in one thread. */
import { firstGreaterThan, lastLessThan, type Transaction } from "../../kv/index.ts";
import { bytes, put, read, rows, text } from "./fixture.ts";

export type Step =
  | { readonly kind: "get"; readonly key: string }
  | { readonly kind: "next" | "previous"; readonly key: string }
  | {
      readonly kind: "range";
      readonly begin: string;
      readonly end: string;
      readonly limit: number;
      readonly reverse: boolean;
    }
  | { readonly kind: "set"; readonly key: string; readonly value: string }
  | { readonly kind: "clear"; readonly key: string }
  | { readonly kind: "clearRange"; readonly begin: string; readonly end: string }
  | { readonly kind: "byteMin"; readonly key: string; readonly value: string }
  /** Copies a value that the transaction reads, so that a lost update changes the result. */
  | { readonly kind: "copy"; readonly from: string; readonly to: string };

/** Result of a key selector that resolves outside the keys used by the operations. */
const OUTSIDE = "(none)";

/** Executes a step, and returns the step's result. */
export async function carryOut(tx: Transaction, step: Step): Promise<string> {
  switch (step.kind) {
    case "get":
      return String(await read(tx, step.key));
    case "next":
      return named(text(await tx.getKey(firstGreaterThan(bytes(step.key))).then(asText)));
    case "previous":
      return named(text(await tx.getKey(lastLessThan(bytes(step.key))).then(asText)));
    case "range":
      return (await rows(tx, step.begin, step.end, step)).join();
    case "set":
      put(tx, step.key, step.value);
      return "";
    case "clear":
      tx.clear(bytes(step.key));
      return "";
    case "clearRange":
      if (step.begin < step.end) {
        tx.clearRange({ begin: bytes(step.begin), end: bytes(step.end) });
      }
      return "";
    case "byteMin":
      tx.byteMin(bytes(step.key), bytes(step.value));
      return "";
    case "copy": {
      const value = await read(tx, step.from);
      put(tx, step.to, `${value}`.slice(-8));
      return String(value);
    }
  }
}

/**
 * Replaces a key that begins with 0xff. Such a key is not valid text, and is after all keys of the
 * test.
 */
function asText(key: Uint8Array): Uint8Array {
  return key[0] === 0xff ? bytes(OUTSIDE) : key;
}

function named(key: string | undefined): string {
  return key === undefined || key === "" || key < "a" || key > "z" ? OUTSIDE : key;
}

export class Model {
  readonly #values: Map<string, string>;

  constructor(values: Iterable<readonly [string, string]> = []) {
    this.#values = new Map(values);
  }

  copy(): Model {
    return new Model(this.#values);
  }

  rows(): string[] {
    return this.#keys().map((key) => `${key}=${this.#values.get(key)}`);
  }

  carryOut(step: Step): string {
    const values = this.#values;
    switch (step.kind) {
      case "get":
        return String(values.get(step.key));
      case "next":
        return this.#keys().find((key) => key > step.key) ?? OUTSIDE;
      case "previous":
        return this.#keys().findLast((key) => key < step.key) ?? OUTSIDE;
      case "range": {
        const keys = this.#keys().filter((key) => key >= step.begin && key < step.end);
        if (step.reverse) keys.reverse();
        return keys
          .slice(0, step.limit)
          .map((key) => `${key}=${values.get(key)}`)
          .join();
      }
      case "set":
        values.set(step.key, step.value);
        return "";
      case "clear":
        values.delete(step.key);
        return "";
      case "clearRange":
        for (const key of this.#keys()) {
          if (key >= step.begin && key < step.end) values.delete(key);
        }
        return "";
      case "byteMin": {
        const stored = values.get(step.key);
        if (stored === undefined || step.value < stored) values.set(step.key, step.value);
        return "";
      }
      case "copy": {
        const value = values.get(step.from);
        values.set(step.to, `${value}`.slice(-8));
        return String(value);
      }
    }
  }

  #keys(): string[] {
    return [...this.#values.keys()].toSorted();
  }
}
