/**
 * Processes that write to one LMDB store concurrently, and the invariants of the result. Each lane
 * stores its number in four keys. Each transaction increments the number of its lane, and the
 * numbers in four keys that all processes share. At any time:
 * - The four keys of a lane have the same number, which is at least the last acknowledged one.
 * - The sum of the shared numbers is four times the sum of the lanes' numbers. Otherwise an update
 * is lost or partial.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createSystemRuntime, openLmdbEngine } from "../../../src/host/index.ts";
import { KeyValueStore, Subspace } from "../../../src/kv/index.ts";

const WRITER_FILE = fileURLToPath(new URL("./ledger-writer.mjs", import.meta.url));
const PART_COUNT = 4;
const LANES = Subspace.fromTuple(["lane"]);
const BULK = Subspace.fromTuple(["bulk"]);

export interface LedgerOptions {
  readonly directory: string;
  readonly laneCount: number;
  /** Number of keys that the writers share. With more keys, the tree is deeper. */
  readonly keyCount: number;
}

export class Ledger {
  readonly kv: KeyValueStore;
  readonly #options: LedgerOptions;
  readonly #writers = new Map<string, Writer>();
  /** Last acknowledged sequence number, by writer and lane. */
  readonly #acknowledged = new Map<string, number>();
  #acknowledgedCount = 0;

  private constructor(kv: KeyValueStore, options: LedgerOptions) {
    this.kv = kv;
    this.#options = options;
  }

  static async open(options: LedgerOptions): Promise<Ledger> {
    const runtime = createSystemRuntime();
    const engine = await openLmdbEngine({ runtime, directory: options.directory });
    const ledger = new Ledger(new KeyValueStore({ runtime, engine }), options);
    await ledger.#fill();
    return ledger;
  }

  get acknowledgedCount(): number {
    return this.#acknowledgedCount;
  }

  /** Starts a writer. Resolves after the writer's first acknowledged transaction. */
  async start(name: string): Promise<void> {
    const { directory, laneCount, keyCount } = this.#options;
    const child = spawn(
      process.execPath,
      [WRITER_FILE, directory, name, String(laneCount), String(keyCount)],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const writer = new Writer(child, (lane, sequence) => {
      this.#acknowledged.set(`${name}/${lane}`, sequence);
      this.#acknowledgedCount++;
    });
    this.#writers.set(name, writer);
    await writer.next();
  }

  /** Resolves after `count` additional acknowledgements of the writer. */
  async progress(name: string, count: number): Promise<void> {
    for (let index = 0; index < count; index++) await this.#writer(name).next();
  }

  /** Kills the writer with `kill -9`, at an arbitrary point of its work. */
  async kill(name: string): Promise<void> {
    await this.#writer(name).end("SIGKILL");
  }

  /** Lets the writer finish. Throws an error with the writer's output if the writer has failed. */
  async stop(name: string): Promise<void> {
    const { code, errors } = await this.#writer(name).end("SIGTERM");
    if (code !== 0) throw new Error(`Writer ${name} ended with ${code}: ${errors}`);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#writers.values()].map((writer) => writer.end("SIGKILL")));
    await this.kv.close();
  }

  /**
   * Throws if the store violates the invariants or lacks acknowledged transactions. Writers may
   * continue in the meantime.
   */
  async check(): Promise<{ readonly transactionCount: number }> {
    const acknowledged = new Map(this.#acknowledged);
    return this.kv.read(async (tx) => {
      const sequences = new Map<string, number[]>();
      for (const { key, value } of (await tx.getRangePage(LANES.range())).entries) {
        const [name, lane] = LANES.unpack(key);
        const parts = sequences.get(`${name}/${lane}`) ?? [];
        parts.push(numberOf(value));
        sequences.set(`${name}/${lane}`, parts);
      }
      let transactionCount = 0;
      for (const [lane, parts] of sequences) {
        if (parts.length !== PART_COUNT || new Set(parts).size !== 1) {
          throw new Error(`Lane ${lane} is half there: ${parts.join()}`);
        }
        transactionCount += parts[0] as number;
      }
      for (const [lane, sequence] of acknowledged) {
        const stored = sequences.get(lane)?.[0] ?? 0;
        if (stored < sequence) {
          throw new Error(`Lane ${lane} was told ${sequence} and stands at ${stored}`);
        }
      }
      let sum = 0;
      for (const { value } of (await tx.getRangePage(BULK.range())).entries) sum += numberOf(value);
      if (sum !== transactionCount * PART_COUNT) {
        throw new Error(`Updates were lost: ${transactionCount} transactions left ${sum}`);
      }
      return { transactionCount };
    });
  }

  #writer(name: string): Writer {
    return this.#writers.get(name) as Writer;
  }

  async #fill(): Promise<void> {
    const { keyCount } = this.#options;
    const batch = 2_000;
    for (let first = 0; first < keyCount; first += batch) {
      await this.kv.transact(async (tx) => {
        for (let key = first; key < Math.min(first + batch, keyCount); key++) {
          tx.set(BULK.pack([key]), new Uint8Array(600));
        }
      });
    }
  }
}

/** A process and its acknowledgements. They are read line by line. */
class Writer {
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;
  #errors = "";
  #waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];

  constructor(child: ChildProcess, onAcknowledged: (lane: number, sequence: number) => void) {
    this.#child = child;
    child.stderr?.on("data", (chunk) => {
      this.#errors += chunk;
    });
    const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> });
    lines.on("line", (line) => {
      const match = /^(\d+) (\d+)$/.exec(line);
      // The last line of a killed process may be truncated.
      if (match === null) return;
      onAcknowledged(Number(match[1]), Number(match[2]));
      for (const { resolve } of this.#waiting.splice(0)) resolve();
    });
    this.#exited = new Promise((resolve) => {
      child.on("close", (code) => {
        const error = new Error(`The writer ended with ${code}: ${this.#errors}`);
        for (const { reject } of this.#waiting.splice(0)) reject(error);
        resolve(code);
      });
    });
  }

  /** Resolves when the writer prints its next acknowledgement. */
  next(): Promise<void> {
    if (this.#child.exitCode !== null) {
      return Promise.reject(
        new Error(`The writer ended with ${this.#child.exitCode}: ${this.#errors}`),
      );
    }
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** Resolves once the process has exited and all its output has been read. */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<{ code: number | null; errors: string }> {
    if (this.#child.exitCode === null) this.#child.kill(signal);
    return { code: await this.#exited, errors: this.#errors };
  }
}

function numberOf(value: Uint8Array): number {
  return new DataView(value.buffer, value.byteOffset).getUint32(0);
}
