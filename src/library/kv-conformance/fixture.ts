/** Parts that an implementation provides to the suite. */

import { hexEncode, type Runtime, utf8Decode, utf8Encode } from "../../base/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import {
  BEHIND_LAST_KEY,
  type Engine,
  FIRST_KEY,
  type Key,
  type KeyValue,
  type KeyValueStore,
  type ReadTransaction,
  type Transaction,
} from "../../kv/index.ts";
import type { Feature } from "./features.ts";
import { PlainStore } from "./plain-store.ts";

export interface KvImplementation {
  /** Opens a new store, which the suite closes. */
  open(): Promise<OpenedEngines>;
  /** Parts of the contract that the engine supports. Default: all. */
  readonly features?: readonly Feature[];
  /** Number of random cases per property. Default: 25. */
  readonly propertyRunCount?: number;
}

export interface OpenedEngines {
  readonly engine: Engine;
  /** Another node of the same store. Default: the same engine. */
  readonly peer?: Engine;
  /**
   * Resolves when every earlier read version is too old. Required for the feature
   * `read-version-age`.
   */
  passReadVersionAge?(): Promise<void>;
  /** Removes the store after everything was closed. */
  remove?(): Promise<void>;
}

export interface Fixture extends Required<OpenedEngines> {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly peerKv: KeyValueStore;
}

export async function openFixture(implementation: KvImplementation): Promise<Fixture> {
  const opened = await implementation.open();
  const { engine, peer = engine, remove = async () => {} } = opened;
  const passReadVersionAge = async (): Promise<void> => {
    if (opened.passReadVersionAge === undefined) throw new Error("passReadVersionAge is missing");
    await opened.passReadVersionAge();
  };
  const runtime = createSystemRuntime();
  const kv = new PlainStore({ runtime, engine });
  const peerKv = peer === engine ? kv : new PlainStore({ runtime, engine: peer });
  return { engine, peer, passReadVersionAge, remove, runtime, kv, peerKv };
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
