/**
 * Declares the functions used from the `foundationdb` package. Client libraries support them since
 * version 6.3. The package is an optional peer dependency, loaded when a FoundationDB store is
 * opened.
 */
import { isMainThread } from "node:worker_threads";
import { assert } from "../../base/index.ts";
import { KeyValueError } from "../../kv/index.ts";

export interface FdbSelector {
  readonly key: Buffer;
  readonly orEqual: boolean;
  readonly offset: number;
  /** Marks the object as a selector, so that the package can distinguish it from a key. */
  readonly _isKeySelector: true;
}

export interface FdbWatch {
  readonly promise: Promise<boolean>;
  cancel(): void;
}

export interface FdbTransaction {
  snapshot(): FdbTransaction;
  get(key: Buffer): Promise<Buffer | undefined>;
  getKey(selector: FdbSelector): Promise<Buffer | undefined>;
  getRangeNative(
    begin: FdbSelector,
    end: FdbSelector,
    limit: number,
    targetBytes: number,
    streamingMode: number,
    iteration: number,
    reverse: boolean,
  ): Promise<{ readonly results: [Buffer, Buffer][]; readonly more: boolean }>;
  set(key: Buffer, value: Buffer): void;
  clear(key: Buffer): void;
  clearRange(begin: Buffer, end: Buffer): void;
  atomicOpNative(operation: number, key: Buffer, operand: Buffer): void;
  addReadConflictRange(begin: Buffer, end: Buffer): void;
  addWriteConflictRange(begin: Buffer, end: Buffer): void;
  getReadVersion(): Promise<Buffer>;
  getVersionstamp(): { readonly promise: Promise<Buffer> };
  watch(key: Buffer, options: { readonly throwAllErrors: boolean }): FdbWatch;
  rawCommit(): Promise<void>;
  rawCancel(): void;
}

export interface FdbDatabase {
  rawCreateTransaction(): FdbTransaction;
  close(): void;
}

export interface FdbPackage {
  setAPIVersion(version: number, headerVersion: number): void;
  open(clusterFile: string | undefined, options: { readonly max_watches: number }): FdbDatabase;
}

/** Constants of the C API, which never change. */
export const FDB_OPERATIONS = {
  add: 2,
  max: 12,
  byteMin: 16,
  setVersionstampedKey: 14,
  setVersionstampedValue: 15,
} as const;

/** Streaming mode that returns the rest of the range as fast as possible. */
export const FDB_WANT_ALL = -2;

/** The type is not a literal, so that the compiler does not resolve this optional package. */
const PACKAGE: string = "foundationdb";

export async function loadFdbPackage(
  apiVersion: number,
  headerVersion: number,
): Promise<FdbPackage> {
  assert(isMainThread, "FoundationDB's package keeps static state and must not be used in threads");
  try {
    const loaded = (await import(PACKAGE)) as { readonly default?: FdbPackage } & FdbPackage;
    const fdb = loaded.default ?? loaded;
    // Without the second argument, the package requests the header version that it was built with,
    // which older client libraries do not support.
    fdb.setAPIVersion(apiVersion, headerVersion);
    return fdb;
  } catch (error) {
    throw new KeyValueError("KV_UNUSABLE", { reason: missing(error) }, { cause: error });
  }
}

function missing(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  // The second alternative matches the error message of a bundler.
  if (/^(Cannot find|Could not resolve).*foundationdb/.test(message)) {
    return "the store on FoundationDB needs the npm package foundationdb: first install FoundationDB's client library, without which npm skips the package, then run: npm install --no-save --save-optional --omit=dev foundationdb@2.0.1";
  }
  if (message.includes("No native build was found")) {
    return `the npm package foundationdb has no binary for ${process.platform} ${process.arch}: install FoundationDB's client library, its headers and a C++ compiler, then reinstall the package, which compiles a binary`;
  }
  if (message.includes("libfdb_c")) {
    return "the store on FoundationDB needs FoundationDB's client library libfdb_c, version 6.3 or later: install the package foundationdb-clients";
  }
  return message;
}
