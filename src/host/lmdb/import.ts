/** Makes a store of rows: it is filled under another name, and takes its place when it is whole and on the disk. */
import { randomUUID } from "node:crypto";
import { existsSync, linkSync, renameSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { open } from "lmdb";
import { type KeyValue, KeyValueError } from "../../kv/index.ts";
import { saveFile, saveFolder } from "../system/files.ts";
import { asBuffer } from "./encoding.ts";
import { environmentOptions, makeDirectory, openDraft, unavailable } from "./environment.ts";
import {
  DATA_FILE,
  decodeShared,
  encodeShared,
  encodeVersion,
  isShared,
  type LmdbDatabase,
  replaceRow,
  storedKey,
  VERSION_KEY,
} from "./layout.ts";
import { LmdbSnapshots, pagesOf } from "./snapshots.ts";
import { faultOfFile } from "./whole-file.ts";

/**
 * What the old store has committed since it was backed up has earlier versions than all that the new one will commit: who has read
 * that far in a changes feed of the old one misses nothing of the new one. It is enough for a year of 30,000 commits a second, and a
 * store can be restored some 8,000 times before its versions are used up.
 */
const SKIPPED_VERSION_COUNT = 2 ** 40;

export interface LmdbImportOptions {
  /** Made when it is missing. */
  readonly directory: string;
  /** The name under which a store that is there is kept, in its folder. Without it, a store that is there is an error. */
  readonly keepAs?: string | undefined;
}

/** Rows are written in transactions of one page each; `finish` puts them in place. Give `close` to `finally`. */
export class LmdbImport {
  readonly #options: LmdbImportOptions;
  readonly #draft: string;
  /** Folders that were made for it, the innermost first. */
  readonly #made: readonly string[];
  readonly #database: LmdbDatabase;
  #closed: Promise<void> | undefined;

  /** Throws KV_UNAVAILABLE when a store is there that may not be replaced, or that a process has open. */
  constructor(options: LmdbImportOptions) {
    const { directory } = options;
    this.#options = options;
    this.#draft = join(directory, `new-${randomUUID()}`);
    checkPlace(options);
    try {
      this.#made = makeDirectory(directory);
      this.#database = openDraft(this.#draft);
    } catch (error) {
      throw unavailable(error, directory);
    }
  }

  /** Throws KV_UNAVAILABLE with the reason. */
  put(rows: readonly KeyValue[]): void {
    this.#write(() => {
      for (const row of rows) putRow(this.#database, row);
    });
  }

  /** What was put, in order of the keys. Throws KV_UNAVAILABLE with the reason. */
  *pages(): Generator<readonly KeyValue[]> {
    const snapshot = new LmdbSnapshots(this.#database).take();
    try {
      yield* pagesOf(snapshot, this.#options.directory);
    } finally {
      snapshot.release();
    }
  }

  /** Puts the store in place; nothing of it is there before. `version`: that of the store from which the rows are. */
  async finish(version: number): Promise<void> {
    this.#write(() => {
      this.#database.putSync(VERSION_KEY, encodeVersion(version + SKIPPED_VERSION_COUNT));
    });
    await this.#closeDatabase();
    checkPlace(this.#options);
    const { directory, keepAs } = this.#options;
    const file = join(directory, DATA_FILE);
    try {
      saveFile(this.#draft, "r+");
      if (keepAs !== undefined && existsSync(file)) {
        linkSync(file, join(directory, keepAs));
        renameSync(this.#draft, file);
      } else linkSync(this.#draft, file);
      saveFolder(directory);
    } catch (error) {
      throw unavailable(error, directory);
    }
  }

  /** Leaves nothing behind but a store that is in place. */
  async close(): Promise<void> {
    await this.#closeDatabase();
    for (const each of [this.#draft, `${this.#draft}-lock`]) rmSync(each, { force: true });
    try {
      for (const folder of this.#made) rmdirSync(folder);
    } catch {
      // Something is in it: the store, or what somebody else has put there.
    }
  }

  #closeDatabase(): Promise<void> {
    this.#closed ??= this.#database.close();
    return this.#closed;
  }

  #write(body: () => void): void {
    try {
      this.#database.transactionSync(body);
    } catch (error) {
      throw unavailable(error, this.#options.directory);
    }
  }
}

function putRow(database: LmdbDatabase, { key, value }: KeyValue): void {
  const stored = storedKey(key);
  if (!isShared(key)) {
    database.putSync(stored, asBuffer(value));
    return;
  }
  const record = database.get(stored);
  const rows = record === undefined ? [] : decodeShared(key, record);
  database.putSync(stored, encodeShared(replaceRow(rows, key, value)));
}

function checkPlace({ directory, keepAs }: LmdbImportOptions): void {
  if (!existsSync(join(directory, DATA_FILE))) return;
  const refuse = (reason: string, isReplaceable = false): never => {
    const details = { reason: `${directory} ${reason}`, directory, isReplaceable };
    throw new KeyValueError("KV_UNAVAILABLE", details);
  };
  if (keepAs === undefined) refuse("has a store already", true);
  if (isOpen(directory)) refuse("has a store that a process has open: stop it first");
}

/**
 * Whether a process that lives has a slot for snapshots, which it takes with its first look and keeps. LMDB cannot be asked about a
 * file that is not whole: it would end this process, as it ends every other that looks into it.
 */
function isOpen(directory: string): boolean {
  if (faultOfFile(join(directory, DATA_FILE)) !== undefined) return false;
  const store = open({ ...environmentOptions(directory), readOnly: true });
  try {
    store.readerCheck();
    const pids = [...store.readerList().matchAll(/^ *(\d+) /gm)].map(([, pid]) => Number(pid));
    return pids.some((pid) => pid !== process.pid);
  } finally {
    void store.close();
  }
}
