/**
 * Opens possible contents of the store's file after a failure of the machine, and reports
 * inconsistencies.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Subspace } from "../../../src/kv/index.ts";
import { type Chance, SimulatedDisk } from "./power-failures.ts";
import type { Note, Operation, RecordedDisk } from "./recorded-disk.ts";

const READER = fileURLToPath(new URL("./image-reader.mjs", import.meta.url));
const LOG = Subspace.fromTuple(["log"]);

type Row = readonly [key: string, value: string];
interface LoggedTransaction {
  readonly id: number;
  readonly operations: readonly Operation[];
}

/** Results of transactions that were already known when the machine failed. */
interface Promises {
  /** Numbers of transactions that must be present in the store. */
  readonly committed: ReadonlySet<number>;
  /** Numbers of transactions that must be absent from the store. */
  readonly refused: ReadonlySet<number>;
}

export interface Inspection {
  readonly imageCount: number;
  /** Inconsistencies, each with the recorded operation after which the machine failed. */
  readonly faults: readonly string[];
}

/**
 * Simulates failures of the machine, and checks the resulting images. There is one failure after
 * each entry from `firstIndex` on. If `ratio` is below 1, only a sample of these entries is used.
 */
export async function inspect(
  recorded: RecordedDisk,
  {
    chances,
    firstIndex = 0,
    ratio = 1,
  }: {
    /** Random sources. Each belongs to a separate simulated disk from which images are taken. */
    readonly chances: readonly Chance[];
    readonly firstIndex?: number;
    readonly ratio?: number;
  },
): Promise<Inspection> {
  const entries = recorded.entries();
  const check = new ImageCheck(recorded);
  const faults: string[] = [];
  let imageCount = 0;
  for (const [number, chance] of chances.entries()) {
    const disk = new SimulatedDisk(chance);
    const notes: Note[] = [];
    for (const [index, entry] of entries.entries()) {
      disk.take(entry);
      if (entry.kind === "note") notes.push(JSON.parse(entry.bytes.toString()));
      if (index < firstIndex || chance.ratio() >= ratio) continue;
      imageCount++;
      const fault = await check.fault(disk.imageAfterFailure(), promisesOf(notes));
      if (fault !== undefined) faults.push(`disk ${number}, after entry ${index}: ${fault}`);
    }
  }
  check.close();
  return { imageCount, faults };
}

function promisesOf(notes: readonly Note[]): Promises {
  const idsOf = (isAsked: (outcome: string) => boolean): Set<number> =>
    new Set(notes.filter(({ outcome }) => isAsked(outcome)).map(({ id }) => id));
  return {
    committed: idsOf((outcome) => outcome === "committed"),
    refused: idsOf((outcome) => outcome !== "committed" && outcome !== "KV_UNKNOWN_COMMIT"),
  };
}

class ImageCheck {
  readonly #directory: string;
  readonly #environment: Readonly<Record<string, string>>;
  #reader: ChildProcess | undefined;
  #answers: AsyncIterator<string> | undefined;
  #count = 0;

  constructor({ imageDirectory, environmentWithoutDisk }: RecordedDisk) {
    this.#directory = imageDirectory;
    this.#environment = environmentWithoutDisk;
    mkdirSync(imageDirectory, { recursive: true });
  }

  /** Returns the first inconsistency of the file, if any. */
  async fault(image: Buffer, promises: Promises): Promise<string | undefined> {
    const directory = join(this.#directory, String(this.#count++));
    mkdirSync(directory);
    // An empty image means that the file does not exist, because a file gets its name only once it
    // is complete and on disk.
    if (image.length > 0) writeFileSync(join(directory, "data.mdb"), image);
    const answer = await this.#read(directory);
    rmSync(directory, { recursive: true });
    if (answer === undefined) return "to open it ended the process";
    if (answer.rows === undefined) return `to open it: ${answer.error}`;
    return faultIn(answer.rows, promises);
  }

  close(): void {
    this.#reader?.kill();
  }

  /** Returns the reader's rows or error; undefined if the file has crashed the reader. */
  async #read(
    directory: string,
  ): Promise<{ readonly rows?: readonly Row[]; readonly error?: string } | undefined> {
    if (this.#answers === undefined) this.#start();
    this.#reader?.stdin?.write(`${directory}\n`);
    const { value, done } = await (this.#answers as AsyncIterator<string>).next();
    if (!done) return JSON.parse(value);
    this.#answers = undefined;
    return undefined;
  }

  #start(): void {
    const reader = spawn(process.execPath, [READER], {
      stdio: ["pipe", "pipe", "ignore"],
      env: { ...process.env, ...this.#environment },
    });
    this.#reader = reader;
    this.#answers = createInterface({ input: reader.stdout })[Symbol.asyncIterator]();
  }
}

function faultIn(rows: readonly Row[], { committed, refused }: Promises): string | undefined {
  const logged = rows.filter(([key]) => isLogged(key)).map(([, value]) => parsed(value));
  const found = new Set(logged.map(({ id }) => id));
  const missing = [...committed].filter((id) => !found.has(id));
  if (missing.length > 0) return `acknowledged and not there: ${missing.join()}`;
  const surplus = [...refused].filter((id) => found.has(id));
  if (surplus.length > 0) return `refused and there: ${surplus.join()}`;
  if (found.size !== logged.length) return "a transaction is there twice";
  const others = rows.filter(([key]) => !isLogged(key));
  if (JSON.stringify(others) !== JSON.stringify(contentOf(logged)))
    return "the rows are not theirs";
  return undefined;
}

/** Returns the rows that result if the transactions are applied in order. */
function contentOf(transactions: readonly LoggedTransaction[]): Row[] {
  const content = new Map<string, string>();
  for (const { id, operations } of transactions) {
    for (const { kind, key, end = "", byteCount = 0 } of operations) {
      if (kind === "set") content.set(key, Buffer.alloc(byteCount, id).toString("hex"));
      else if (kind === "clear") content.delete(key);
      else for (const each of content.keys()) if (each >= key && each < end) content.delete(each);
    }
  }
  return [...content]
    .map(([key, value]): Row => [Buffer.from(key).toString("hex"), value])
    .sort(([one], [other]) => (one < other ? -1 : 1));
}

function isLogged(key: string): boolean {
  return key.startsWith(Buffer.from(LOG.prefix).toString("hex"));
}

function parsed(value: string): LoggedTransaction {
  return JSON.parse(Buffer.from(value, "hex").toString());
}
