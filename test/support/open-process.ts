/** The built program, run as a child process with its data in a temporary folder. */
import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PassThrough, type Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { createLogWriter } from "../../src/host/index.ts";
import { openServer, readConfig } from "../../src/server/index.ts";
import { AnnouncedEvents } from "./announced-events.ts";
import { askUntil, patience } from "./runner/patience.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface ProcessOptions {
  /**
   * Data folder, which is kept at the end. Default: a temporary folder, which is removed at the
   * end.
   */
  readonly directory?: string;
  readonly ini?: string;
  /** Configuration that all processes of a store have in common. It is placed before `ini`. */
  readonly storeIni?: string;
  readonly port?: number;
  /** Additional options of `tandem serve`. */
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Root folder of the program. Default: this checkout. */
  readonly program?: string;
  /** Maximum number of open files. Default: the system's limit. */
  readonly handlesMax?: number;
}

/** Options that a node in the process of the tests can have. */
export type HereOptions = Pick<
  ProcessOptions,
  "directory" | "ini" | "storeIni" | "port" | "environment"
>;

export interface TandemNode {
  readonly url: string;
  readonly port: number;
  /** Returns the log so far. */
  readonly log: () => string;
  /** Events logged by the node and its child processes. */
  readonly events: AnnouncedEvents;
  /** Sends a request with a JSON body and parses the JSON response. */
  call(method: string, path: string, body?: unknown): Promise<Answer>;
  /**
   * Repeats the request `ask` after every event of this node, until `passes` accepts the response.
   */
  onceAnswered<T>(ask: () => Promise<T>, passes: (answer: T) => boolean): Promise<T>;
  /** Stops the node gracefully. Resolves to the exit code if the node has its own process. */
  stop(): Promise<number | null>;
}

export interface TandemProcess extends TandemNode {
  readonly child: ChildProcess;
  /** Kills the process. */
  kill(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  readonly body: any;
}

/** Folders and processes that one test file uses. Pass `close` to `afterAll`. */
export class Processes {
  readonly #directories: string[] = [];
  readonly #children: TandemProcess[] = [];
  readonly #silent: ChildProcess[] = [];
  readonly #here: TandemNode[] = [];
  readonly #cleanUps: (() => Promise<void>)[] = [];

  directory(): string {
    const directory = mkdtempSync(join(tmpdir(), "tandem-test-"));
    this.#directories.push(directory);
    return directory;
  }

  async open(options: ProcessOptions = {}): Promise<TandemProcess> {
    const directory = options.directory ?? this.directory();
    const opened = await openProcess({ ...options, directory });
    this.#children.push(opened);
    return opened;
  }

  /**
   * Opens a node in the process of the tests, which takes a tenth of the time of a new process. It
   * shares the event loop, the environment of Node.js and the garbage collector with the tests.
   */
  async openHere(options: HereOptions = {}): Promise<TandemNode> {
    const opened = await openHere({ ...options, directory: options.directory ?? this.directory() });
    this.#here.push(opened);
    return opened;
  }

  /** Starts a process that has no API, and therefore does not report that it is ready. */
  start(options: ProcessOptions & { readonly directory: string }): ChildProcess {
    const child = spawnTandem(options);
    this.#silent.push(child);
    return child;
  }

  /** Registers a function that is called after all processes have ended. */
  onClose(cleanUp: () => Promise<void>): void {
    this.#cleanUps.push(cleanUp);
  }

  async close(): Promise<void> {
    for (const node of this.#here) await node.stop();
    for (const child of this.#children) await child.kill();
    for (const child of this.#silent) await endProcess(child, "SIGKILL");
    for (const cleanUp of this.#cleanUps) await cleanUp();
    for (const directory of this.#directories) rmSync(directory, { recursive: true, force: true });
  }
}

/** Writes the configuration, if any, to the node's folder. Returns the name of the file. */
function writeIni(
  options: Pick<ProcessOptions, "ini" | "storeIni"> & { readonly directory: string },
): string | undefined {
  if (options.ini === undefined && options.storeIni === undefined) return undefined;
  const file = join(options.directory, "tandem.ini");
  writeFileSync(file, `${options.storeIni ?? ""}${options.ini ?? ""}`);
  return file;
}

function spawnTandem(
  options: ProcessOptions & { readonly directory: string },
): ChildProcessByStdio<null, Readable, Readable> {
  const { directory, port = 0, environment = {} } = options;
  const flags = ["serve", "--port", String(port), "--data-dir", join(directory, "data")];
  flags.push(...(options.flags ?? []));
  const file = writeIni(options);
  if (file !== undefined) flags.push("--config", file);
  const main = join(options.program ?? ROOT, "dist/program/main.js");
  const program = [process.execPath, main, ...flags];
  const { handlesMax } = options;
  // Node.js raises its limit to the hard limit, which only a parent process can lower.
  const limited = ["sh", "-c", `ulimit -n ${handlesMax}; exec "$@"`, "sh", ...program];
  const [command = "", ...rest] = handlesMax === undefined ? program : limited;
  return spawn(command, rest, {
    // Tests wait for events, including events of single requests and of statistics. These events
    // have the level debug.
    env: { ...process.env, TANDEM_LOG_LEVEL: "debug", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function endProcess(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  await patience.until("a node to end", exit);
}

async function openProcess(
  options: ProcessOptions & { readonly directory: string },
): Promise<TandemProcess> {
  const child = spawnTandem(options);
  const events = new AnnouncedEvents(child.stderr);
  const listening = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const match = /^listening on (http:\/\/.*)$/.exec(line);
      if (match !== null) resolve(match[1] as string);
    });
    child.once("exit", (code) => reject(new Error(`the node ended with ${code}: ${events.text}`)));
  });
  const url = await patience.until("a node to listen", listening);
  return {
    url,
    port: Number(new URL(url).port),
    child,
    log: () => events.text,
    events,
    call: (method, path, body) => call(`${url}${path}`, method, body),
    onceAnswered: (ask, passes) => onceAnswered([{ events }], ask, passes),
    kill: () => endProcess(child, "SIGKILL"),
    async stop() {
      await endProcess(child, "SIGTERM");
      return child.exitCode;
    },
  };
}

async function openHere(
  options: HereOptions & { readonly directory: string },
): Promise<TandemNode> {
  const configFile = writeIni(options);
  const config = readConfig(
    {
      port: options.port ?? 0,
      dataDirectory: join(options.directory, "data"),
      ...(configFile === undefined ? {} : { configFile }),
    },
    { TANDEM_LOG_LEVEL: "debug", ...options.environment },
  );
  const destination = new PassThrough();
  const events = new AnnouncedEvents(destination);
  const level = () => config.log.level;
  const server = await openServer(config, createLogWriter({ level, format: "json", destination }));
  const url = server.url as string;
  return {
    url,
    port: Number(new URL(url).port),
    log: () => events.text,
    events,
    call: (method, path, body) => call(`${url}${path}`, method, body),
    onceAnswered: (ask, passes) => onceAnswered([{ events }], ask, passes),
    async stop() {
      await server.stop();
      destination.destroy();
      return null;
    },
  };
}

/** Sends a request. A string as body is sent unchanged, and any other body is sent as JSON. */
export async function call(url: string, method: string, body?: unknown): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

/**
 * Repeats the request after each event of any of the processes, until `passes` accepts the
 * response. Use this for state that changes with these events.
 */
export async function onceAnswered<T>(
  processes: readonly Pick<TandemNode, "events">[],
  ask: () => Promise<T>,
  passes: (answer: T) => boolean,
): Promise<T> {
  return askUntil("an answer that passes", {
    ask,
    passes,
    changed: () => {
      const counts = processes.map(({ events }) => events.count);
      return () =>
        Promise.any(processes.map(({ events }, index) => events.next(counts[index] as number)));
    },
  });
}
