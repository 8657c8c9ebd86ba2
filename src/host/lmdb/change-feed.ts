/**
 * Fires watches from the commit log. Each commit of any process writes to the bell file, which
 * wakes processes with watches. These processes read the new log records and fire the watches of
 * the written keys. If a wake-up is missed, the next poll fires the watches.
 */
import { type FSWatcher, watch as watchFile } from "node:fs";
import { join } from "node:path";
import { type Key, keyText, type Watch, WatchRegistry } from "../../kv/index.ts";

import { BELL_FILE, type LmdbDatabase, logKey } from "./layout.ts";
import { loggedWrites } from "./log-record.ts";
import type { LmdbSnapshots } from "./snapshots.ts";

/** Interval of polls, each of which costs less than a microsecond. */
const POLL_MS = 250;

export class LmdbChangeFeed {
  readonly #database: LmdbDatabase;
  readonly #snapshots: LmdbSnapshots;
  readonly #directory: string;
  readonly #onError: (error: unknown) => void;
  readonly #watches = new WatchRegistry();
  /** Version up to which all writes have been announced. */
  #announcedVersion = 0;
  #bell: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;
  #closed = false;

  /** `onError` is called if the store cannot be read. */
  constructor(
    database: LmdbDatabase,
    snapshots: LmdbSnapshots,
    directory: string,
    onError: (error: unknown) => void,
  ) {
    this.#database = database;
    this.#snapshots = snapshots;
    this.#directory = directory;
    this.#onError = onError;
  }

  /** Returns a watch for the first write to `key` after `version`. */
  arm(key: Key, version: number): Watch {
    this.#listen();
    this.announce();
    const watch = this.#watches.arm(key);
    if (this.#closed) this.#watches.close();
    else if (this.#isWrittenAfter(version, key)) {
      this.#watches.announce([{ begin: keyText(key), end: undefined }]);
    }
    return watch;
  }

  /** Fires the watches for all commits since the last call. */
  announce(): void {
    if (this.#closed) return;
    const version = this.#snapshots.lastVersion();
    if (version === this.#announcedVersion) return;
    const since = this.#announcedVersion;
    this.#announcedVersion = version;
    if (this.#watches.isEmpty) return;
    const isWhole = this.#readLog(since, version, this.#watches.hasLength, (writes) =>
      this.#watches.announce(writes),
    );
    if (!isWhole) this.#watches.fireAll();
  }

  close(): void {
    this.#closed = true;
    this.#bell?.close();
    clearInterval(this.#poll);
    this.#watches.close();
  }

  /** Starts listening; called with the first watch. Does not keep the process alive. */
  #listen(): void {
    if (this.#poll !== undefined || this.#closed) return;
    const ring = (): void => {
      if (this.#watches.isEmpty) return;
      try {
        this.announce();
      } catch (error) {
        this.#onError(error);
      }
    };
    this.#poll = setInterval(ring, POLL_MS);
    this.#poll.unref();
    try {
      this.#bell = watchFile(join(this.#directory, BELL_FILE), { persistent: false }, ring);
      // Without the bell file, changes are detected by polling.
      this.#bell.on("error", () => this.#bell?.close());
    } catch {
      this.#bell = undefined;
    }
  }

  #isWrittenAfter(version: number, key: Key): boolean {
    const text = keyText(key);
    let isWritten = false;
    const isAsked = (length: number): boolean => length === text.length;
    const isWhole = this.#readLog(version, this.#announcedVersion, isAsked, (writes) => {
      isWritten ||= writes.some(({ begin, end }) =>
        end === undefined ? begin === text : begin <= text && text < end,
      );
    });
    return isWritten || !isWhole;
  }

  /**
   * Calls `visit` with the writes of each version after `since`, up to `until`. Returns false if a
   * log record is missing: its writes are then unknown.
   */
  #readLog(
    since: number,
    until: number,
    isAsked: (keyLength: number) => boolean,
    visit: (writes: ReturnType<typeof loggedWrites>) => void,
  ): boolean {
    for (let version = since + 1; version <= until; version++) {
      const record = this.#database.get(logKey(version));
      if (record === undefined) return false;
      visit(loggedWrites(record, isAsked));
    }
    return true;
  }
}
