/**
 * Processes that write to one store. `disk-recorder.c` records their operations on the store's
 * file, and injects disk failures for tests.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SOURCE = fileURLToPath(new URL("./disk-recorder.c", import.meta.url));
const WRITER = fileURLToPath(new URL("./disk-writer.mjs", import.meta.url));

/** Size of `struct control`, and the offsets of its counters of faults. */
const CONTROL_BYTES = 24;
const FAULT_OFFSETS = { syncs: 4, rootWrites: 8, fullWrites: 12 };
const KINDS = [
  "write",
  "sync",
  "sync-failed",
  "range-sync",
  "range-sync-failed",
  "note",
  "folder-sync",
  "present",
] as const;
const ENTRY_BYTES = 24;
const WITH_BYTES = new Set<string>(["write", "note", "folder-sync", "present"]);

/** Whether this is Linux with a C compiler and a C library that supports the recorder. */
export const canRecordDisks: boolean = process.platform === "linux" && hasCompiler();

export interface Operation {
  readonly kind: "set" | "clear" | "clearRange";
  readonly key: string;
  /** End of the range. Only `clearRange` has it. */
  readonly end?: string;
  /** Size of the value. Only `set` has it. Each byte of the value is the transaction's number. */
  readonly byteCount?: number;
}

/** Result of a transaction: "committed", or the error code. */
export interface Note {
  readonly id: number;
  readonly outcome: string;
  readonly reason?: string;
}

export interface DiskEntry {
  readonly kind: (typeof KINDS)[number];
  readonly offset: number;
  /** Length of a write or of a partial sync. */
  readonly byteCount: number;
  /** Data of a write or of the initial file, text of a note, or path of a folder. */
  readonly bytes: Buffer;
}

export class RecordedDisk {
  readonly #directory: string;
  readonly #library: string;
  readonly #writers: Writer[] = [];
  #lastId = 0;

  constructor(directory: string) {
    this.#directory = directory;
    this.#library = join(directory, "disk-recorder.so");
    execFileSync("cc", ["-O1", "-shared", "-fPIC", "-o", this.#library, SOURCE, "-ldl"]);
    writeFileSync(this.#traceFile, "");
    writeFileSync(this.#controlFile, Buffer.alloc(CONTROL_BYTES));
    writeFileSync(join(directory, "no-faults"), Buffer.alloc(CONTROL_BYTES));
  }

  get storeDirectory(): string {
    return join(this.#directory, "nested", "store");
  }

  /** Environment for a recorded process. */
  get environment(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: this.#library,
      DISK_TRACE: this.#traceFile,
      DISK_CONTROL: this.#controlFile,
    };
  }

  /**
   * Environment for a process whose stores are in memory. Its operations are not recorded, and its
   * syncs are skipped.
   */
  get environmentWithoutDisk(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: this.#library,
      DISK_TRACE: "/dev/null",
      DISK_CONTROL: join(this.#directory, "no-faults"),
    };
  }

  /** A folder for images of files that a failing machine leaves. */
  get imageDirectory(): string {
    return join(this.#directory, "images");
  }

  /** Starts an additional writer process. */
  async open(): Promise<Writer> {
    const child = spawn(process.execPath, [WRITER, this.storeDirectory, this.#notesFile], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...this.environment },
    });
    const writer = new Writer(child, () => ++this.#lastId);
    this.#writers.push(writer);
    await writer.answer();
    return writer;
  }

  /**
   * Makes the next operations fail. `faults` contains the number of failures for each kind of
   * operation.
   */
  fail(faults: Partial<Record<keyof typeof FAULT_OFFSETS, number>>): void {
    const file = openSync(this.#controlFile, "r+");
    for (const [name, count] of Object.entries(faults)) {
      const bytes = Buffer.alloc(4);
      bytes.writeInt32LE(count);
      writeSync(file, bytes, 0, 4, FAULT_OFFSETS[name as keyof typeof FAULT_OFFSETS]);
    }
    closeSync(file);
  }

  /** Returns all operations on the file so far, by all processes, in order. */
  entries(): DiskEntry[] {
    const trace = readFileSync(this.#traceFile);
    const entries: DiskEntry[] = [];
    for (let at = 0; at < trace.length; ) {
      const kind = KINDS[trace.readUInt32LE(at)] as DiskEntry["kind"];
      const byteCount = Number(trace.readBigUInt64LE(at + 16));
      const offset = Number(trace.readBigUInt64LE(at + 8));
      at += ENTRY_BYTES;
      const storedCount = WITH_BYTES.has(kind) ? byteCount : 0;
      entries.push({ kind, offset, byteCount, bytes: trace.subarray(at, at + storedCount) });
      at += storedCount;
    }
    return entries;
  }

  /** Kills all processes, as a failure of the machine would. */
  async close(): Promise<void> {
    await Promise.all(this.#writers.map((writer) => writer.kill()));
  }

  get #traceFile(): string {
    return join(this.#directory, "trace");
  }

  get #controlFile(): string {
    return join(this.#directory, "control");
  }

  get #notesFile(): string {
    return join(this.#directory, "notes");
  }
}

export class Writer {
  readonly #child: ChildProcess;
  readonly #drawId: () => number;
  readonly #lines: AsyncIterator<string>;

  constructor(child: ChildProcess, drawId: () => number) {
    this.#child = child;
    this.#drawId = drawId;
    const input = child.stdout as NonNullable<typeof child.stdout>;
    this.#lines = createInterface({ input })[Symbol.asyncIterator]();
  }

  /** Runs one transaction. Resolves to its result. */
  async write(
    operations: readonly Operation[],
    whenUnknown: "throw" | "retry" = "throw",
  ): Promise<Note> {
    this.#child.stdin?.write(
      `${JSON.stringify({ id: this.#drawId(), operations, whenUnknown })}\n`,
    );
    return (await this.answer()) as Note;
  }

  /**
   * Returns whether the store reports that it is available, and the result of a read: "done", or
   * the error code.
   */
  state(): Promise<unknown> {
    this.#child.stdin?.write("{}\n");
    return this.answer();
  }

  async isAvailable(): Promise<boolean> {
    return ((await this.state()) as { isAvailable: boolean }).isAvailable;
  }

  async answer(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("The writer ended");
    return JSON.parse(value);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }
}

function hasCompiler(): boolean {
  try {
    execFileSync("cc", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
