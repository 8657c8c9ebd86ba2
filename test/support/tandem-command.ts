/** The built command `tandem`. */
import { type ChildProcess, execFile, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const HOST = fileURLToPath(new URL("./command-host.mjs", import.meta.url));

export interface Ran {
  /** Exit code; -1 after a signal. */
  readonly code: number;
  /** Text written to standard output. */
  readonly output: string;
  /** Text written to standard error. */
  readonly errors: string;
}

export interface CommandOptions {
  /** Variables added to the environment of the tests. The user's `.netrc` is not read. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Working directory. Default: that of the tests. */
  readonly directory?: string;
}

/** Processes without a running command. They end with the process of the tests. */
const idle: ChildProcess[] = [];

/**
 * Runs a command to its end, without input. The process might have run other commands before, so
 * its Node.js options cannot be changed.
 */
export async function tandem(flags: readonly string[], options: CommandOptions = {}): Promise<Ran> {
  const host = idle.pop() ?? openHost();
  const ended = new AbortController();
  const { signal } = ended;
  const { directory = process.cwd() } = options;
  host.channel?.ref();
  host.send({ flags, environment: environmentOf(options), directory });
  try {
    const [ran] = await Promise.race([
      once(host, "message", { signal }),
      once(host, "exit", { signal }).then(([code]) => {
        throw new Error(`The process of \`tandem ${flags.join(" ")}\` ended with ${code}`);
      }),
    ]);
    host.channel?.unref();
    idle.push(host);
    return ran as Ran;
  } finally {
    ended.abort();
  }
}

/** Runs a command in its own process, with `input` on standard input. */
export function tandemProcess(
  flags: readonly string[],
  { input = "", ...options }: CommandOptions & { readonly input?: string } = {},
): Promise<Ran> {
  const env = environmentOf(options);
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [MAIN, ...flags],
      { env, ...(options.directory === undefined ? {} : { cwd: options.directory }) },
      (_, output, errors) => resolve({ code: child.exitCode ?? -1, output, errors }),
    );
    child.stdin?.end(input);
  });
}

function openHost(): ChildProcess {
  const host = fork(HOST, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  host.unref();
  return host;
}

function environmentOf({ environment = {} }: CommandOptions): NodeJS.ProcessEnv {
  return { ...process.env, NETRC: "/none", ...environment };
}
