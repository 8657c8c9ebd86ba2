/**
 * An engine whose store is open in another process. Every call is sent to that process, so that the
 * same test suite can test transactions that run concurrently in two processes.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { abortable, type Page } from "../../../src/base/index.ts";
import type { KeySelector } from "../../../src/kv/index.ts";
import {
  type Commit,
  checkKey,
  checkValue,
  type Engine,
  type EngineTransaction,
  type Key,
  type KeyRange,
  type KeyValue,
  KeyValueError,
  type KeyValueErrorCode,
  PagedRange,
  type RangeOptions,
  type ReadTransaction,
  type Transaction,
  type Value,
  Versionstamp,
  type VersionstampedBytes,
  type Watch,
} from "../../../src/kv/index.ts";

const PROCESS_FILE = fileURLToPath(new URL("./remote-engine-process.mjs", import.meta.url));

interface Answer {
  readonly callId: number;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message: string; readonly details?: object };
}

export async function openRemoteLmdbEngine(directory: string): Promise<RemoteEngine> {
  const child = fork(PROCESS_FILE, [directory], { serialization: "advanced" });
  await once(child, "message");
  return new RemoteEngine(child);
}

export class RemoteEngine implements Engine {
  readonly name = "lmdb, in another process";
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, (answer: Answer) => void>();
  #idCount = 0;
  #closing: Promise<unknown> | undefined;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", (answer: Answer) => {
      this.#calls.get(answer.callId)?.(answer);
      this.#calls.delete(answer.callId);
    });
  }

  begin(): EngineTransaction {
    const transactionId = this.nextId();
    this.send({ kind: "begin", transactionId });
    return new RemoteTransaction(this, transactionId);
  }

  async close(): Promise<void> {
    this.#closing ??= once(this.#child, "exit");
    if (this.#child.connected) this.send({ kind: "close" });
    await this.#closing;
  }

  nextId(): number {
    return ++this.#idCount;
  }

  send(message: object): void {
    this.#child.send(message);
  }

  call<T>(message: object): Promise<T> {
    const callId = this.nextId();
    return new Promise((resolve, reject) => {
      this.#calls.set(callId, ({ value, error }) => {
        if (error === undefined) resolve(value as T);
        else reject(errorOf(error));
      });
      this.send({ ...message, callId });
    });
  }
}

class RemoteReads implements ReadTransaction {
  protected readonly engine: RemoteEngine;
  protected readonly transactionId: number;
  protected ended = false;
  readonly #isSnapshot: boolean;

  constructor(engine: RemoteEngine, transactionId: number, isSnapshot: boolean) {
    this.engine = engine;
    this.transactionId = transactionId;
    this.#isSnapshot = isSnapshot;
  }

  get snapshot(): ReadTransaction {
    return new RemoteReads(this.engine, this.transactionId, true);
  }

  async get(key: Key): Promise<Value | undefined> {
    checkKey(key);
    return this.#read("get", key);
  }

  async getMany(keys: readonly Key[]): Promise<(Value | undefined)[]> {
    for (const key of keys) checkKey(key);
    return this.#read("getMany", keys);
  }

  getKey(selector: KeySelector): Promise<Key> {
    return this.#read("getKey", selector);
  }

  getRange(range: KeyRange, options: RangeOptions = {}): AsyncIterable<KeyValue> {
    return new PagedRange(this, range, options);
  }

  getRangePage(range: KeyRange, options: RangeOptions = {}): Promise<Page<KeyValue>> {
    return this.#read("getRangePage", range, options);
  }

  readVersion(): Promise<bigint> {
    return this.#read("readVersion");
  }

  async #read<T>(method: string, ...parameters: unknown[]): Promise<T> {
    if (this.ended) throw new KeyValueError("KV_CLOSED", { closed: "transaction" });
    return this.engine.call({
      kind: "read",
      transactionId: this.transactionId,
      snapshot: this.#isSnapshot,
      method,
      parameters,
    });
  }
}

class RemoteTransaction extends RemoteReads implements Transaction, EngineTransaction {
  readonly effects: ((commit: Commit) => void)[] = [];
  hasWrites = false;
  #userVersion = 0;

  constructor(engine: RemoteEngine, transactionId: number) {
    super(engine, transactionId, false);
  }

  get transaction(): Transaction {
    return this;
  }

  set(key: Key, value: Value): void {
    checkKey(key);
    checkValue(value);
    this.#write("set", key, value);
  }

  clear(key: Key): void {
    checkKey(key);
    this.#write("clear", key);
  }

  clearRange(range: { readonly begin: Key; readonly end: Key }): void {
    this.#write("clearRange", range);
  }

  add(key: Key, delta: bigint): void {
    checkKey(key);
    this.#write("add", key, delta);
  }

  max(key: Key, value: Value): void {
    this.#write("max", key, value);
  }

  byteMin(key: Key, value: Value): void {
    this.#write("byteMin", key, value);
  }

  setVersionstampedKey(key: VersionstampedBytes, value: Value): void {
    this.#write("setVersionstampedKey", key, value);
  }

  setVersionstampedValue(key: Key, value: VersionstampedBytes): void {
    this.#write("setVersionstampedValue", key, value);
  }

  addReadConflictKey(key: Key): void {
    this.#send("addReadConflictKey", key);
  }

  addReadConflictRange(range: { readonly begin: Key; readonly end: Key }): void {
    this.#send("addReadConflictRange", range);
  }

  addWriteConflictKey(key: Key): void {
    this.#write("addWriteConflictKey", key);
  }

  addWriteConflictRange(range: { readonly begin: Key; readonly end: Key }): void {
    this.#write("addWriteConflictRange", range);
  }

  nextUserVersion(): number {
    return this.#userVersion++;
  }

  watch(key: Key): Watch {
    const { engine, transactionId } = this;
    const watchId = engine.nextId();
    engine.send({ kind: "watch", transactionId, watchId, key });
    return {
      fired: (signal) => abortable(engine.call<void>({ kind: "fired", watchId }), signal),
      cancel: () => engine.send({ kind: "cancel", watchId }),
    };
  }

  afterCommit(effect: (commit: Commit) => void): void {
    this.effects.push(effect);
  }

  async commit(): Promise<Commit> {
    if (this.ended) throw new KeyValueError("KV_CLOSED", { closed: "transaction" });
    this.ended = true;
    const { transactionId } = this;
    const stamp = await this.engine.call<Uint8Array | undefined>({ kind: "commit", transactionId });
    return { versionstamp: stamp && Versionstamp.fromBytes(stamp) };
  }

  cancel(): void {
    if (this.ended) return;
    this.ended = true;
    this.engine.send({ kind: "cancel-transaction", transactionId: this.transactionId });
  }

  #write(method: string, ...parameters: unknown[]): void {
    this.hasWrites = true;
    this.#send(method, ...parameters);
  }

  #send(method: string, ...parameters: unknown[]): void {
    if (this.ended) throw new KeyValueError("KV_CLOSED", { closed: "transaction" });
    this.engine.send({
      kind: "write",
      transactionId: this.transactionId,
      method,
      // Sends copies. Values are serialized later, and Node.js's pooled buffers would otherwise be
      // sent as a whole.
      parameters: parameters.map((each) => (each instanceof Uint8Array ? each.slice() : each)),
    });
  }
}

function errorOf({ code, message, details }: NonNullable<Answer["error"]>): Error {
  if (code === undefined) return new Error(message);
  return new KeyValueError(code as KeyValueErrorCode, details as Record<string, unknown>);
}
