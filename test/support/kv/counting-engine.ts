/**
 * Engines that count the keys that transactions read, including the rows of ranges, and the keys or
 * bytes that they write.
 */
import type {
  Engine,
  EngineTransaction,
  Key,
  ReadTransaction,
  Transaction,
  VersionstampedBytes,
} from "../../../src/kv/index.ts";

export interface KeyCounts {
  readCount: number;
  writtenCount: number;
}

const WRITES = ["set", "clear", "add", "setVersionstampedKey", "setVersionstampedValue"] as const;

export function countingEngine(engine: Engine): { engine: Engine; counts: KeyCounts } {
  const counts: KeyCounts = { readCount: 0, writtenCount: 0 };
  const begin = (attempt?: number): EngineTransaction => {
    const inner = engine.begin(attempt);
    countKeys(inner.transaction, counts);
    return inner;
  };
  return { engine: { name: engine.name, begin, close: () => engine.close() }, counts };
}

/** Starts counting the reads and writes of the transaction. */
export function countKeys(tx: Transaction, counts: KeyCounts): void {
  countReads(tx, counts);
  countReads(tx.snapshot, counts);
  const transaction = tx as unknown as Record<string, (...args: never[]) => void>;
  for (const name of WRITES) {
    const write = transaction[name]?.bind(transaction) as (...args: never[]) => void;
    transaction[name] = (...args: never[]) => {
      counts.writtenCount++;
      write(...args);
    };
  }
}

function countReads(reader: ReadTransaction, counts: KeyCounts): void {
  const get = reader.get.bind(reader);
  reader.get = (key) => {
    counts.readCount++;
    return get(key);
  };
  const getMany = reader.getMany.bind(reader);
  reader.getMany = (keys) => {
    counts.readCount += keys.length;
    return getMany(keys);
  };
  const getRangePage = reader.getRangePage.bind(reader);
  reader.getRangePage = async (range, options) => {
    const page = await getRangePage(range, options);
    // Reading an empty range counts as one read.
    counts.readCount += Math.max(1, page.entries.length);
    return page;
  };
}

/** Returns an engine that counts the bytes of the keys and values that transactions set. */
export function byteCountingEngine(engine: Engine): {
  engine: Engine;
  written: { byteCount: number };
} {
  const written = { byteCount: 0 };
  const begin = (attempt?: number): EngineTransaction => {
    const inner = engine.begin(attempt);
    const tx = inner.transaction;
    for (const name of ["set", "setVersionstampedKey", "setVersionstampedValue"] as const) {
      const write = tx[name].bind(tx) as (...row: Row) => void;
      Object.assign(tx, {
        [name]: (...row: Row) => {
          for (const part of row) {
            written.byteCount += part instanceof Uint8Array ? part.length : part.bytes.length;
          }
          write(...row);
        },
      });
    }
    return inner;
  };
  return { engine: { name: engine.name, begin, close: () => engine.close() }, written };
}

type Row = readonly (Key | Uint8Array | VersionstampedBytes)[];
