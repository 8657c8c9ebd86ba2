/** An engine that counts the keys that transactions read, rows of ranges included, and those that their commits wrote. */
import type {
  Engine,
  EngineTransaction,
  ReadTransaction,
  Transaction,
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

/** From now on, what the transaction reads and writes is counted. */
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
    // A range that holds nothing is looked at, too.
    counts.readCount += Math.max(1, page.entries.length);
    return page;
  };
}
