/** Requirements that the suite has for an implementation. */

import type { Runtime } from "../../../src/base/index.ts";
import { hexEncode, utf8Decode, utf8Encode } from "../../../src/base/index.ts";
import {
  BEHIND_LAST_KEY,
  type Engine,
  FIRST_KEY,
  type Key,
  type KeyValue,
  type KeyValueStore,
  type ReadTransaction,
  type Transaction,
} from "../../../src/kv/index.ts";
import { PlainStore } from "../../support/kv/plain-store.ts";

export interface KvImplementation {
  readonly name: string;
  /** Opens a new store. The suite closes it. */
  open(): Promise<OpenedEngines>;
  readonly supports: {
    /** Number of random cases for each property. */
    readonly propertyRunCount: number;
  };
}

export interface OpenedEngines {
  readonly runtime: Runtime;
  readonly engine: Engine;
  /**
   * Engine of another node of the same store, or the same engine if the store has only one node.
   */
  readonly peer: Engine;
  /** Resolves when every read version obtained so far is too old. */
  passReadVersionAge(): Promise<void>;
  /** Removes the store after all engines have been closed. */
  remove(): Promise<void>;
}

export interface Fixture extends OpenedEngines {
  readonly kv: KeyValueStore;
  readonly peerKv: KeyValueStore;
}

export async function openFixture(implementation: KvImplementation): Promise<Fixture> {
  const opened = await implementation.open();
  const { runtime, engine, peer } = opened;
  const kv = new PlainStore({ runtime, engine });
  const peerKv = peer === engine ? kv : new PlainStore({ runtime, engine: peer });
  return { ...opened, kv, peerKv };
}

export async function closeFixture({ kv, peerKv, remove }: Fixture): Promise<void> {
  await peerKv.close();
  await kv.close();
  await remove();
}

/** The range of all keys, which a test clears to begin with an empty store. */
export const EVERYTHING = { begin: FIRST_KEY, end: BEHIND_LAST_KEY };

export async function clearAll(kv: KeyValueStore): Promise<void> {
  await kv.transact(async (tx) => tx.clearRange(EVERYTHING));
}

export const bytes = utf8Encode;

export function text(value: Uint8Array | undefined): string | undefined {
  return value === undefined ? undefined : utf8Decode(value);
}

export function put(tx: Transaction, key: string, value: string): void {
  tx.set(bytes(key), bytes(value));
}

export async function read(tx: ReadTransaction, key: string): Promise<string | undefined> {
  return text(await tx.get(bytes(key)));
}

/** Returns the rows of a range as `key=value`. */
export async function rows(
  tx: ReadTransaction,
  begin: string,
  end: string,
  options: { limit?: number; reverse?: boolean } = {},
): Promise<string[]> {
  const found: string[] = [];
  const range = { begin: bytes(begin), end: bytes(end) };
  for await (const row of tx.getRange(range, options)) found.push(rowText(row));
  return found;
}

export function rowText({ key, value }: KeyValue): string {
  return `${text(key)}=${text(value)}`;
}

export function hexKeys(entries: readonly { readonly key: Key }[]): string[] {
  return entries.map(({ key }) => hexEncode(key));
}

/**
 * Returns a promise and a function that resolves it. A test uses this to hold one transaction while
 * another runs.
 */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
