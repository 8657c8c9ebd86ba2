/** `tandem serve`: runs a node until SIGTERM, SIGINT or SIGHUP. */
import {
  createLogWriter,
  logFormat,
  notifierOf,
  onParentGone,
  openSpans,
  parentListener,
  startChildProgram,
} from "../host/index.ts";
import { openServer, readConfig, type ServeOptions, VERSION } from "../server/index.ts";
import { reportError } from "./terminal/describe-error.ts";
import { onStopSignal } from "./terminal/stop-signals.ts";

/** Time limit for stopping. Unfinished work stays in the queue. */
const STOP_MS_MAX = 10_000;

interface ServeFlags {
  readonly port?: number;
  readonly bindAddress?: string;
  readonly dataDir?: string;
  readonly config?: string;
  readonly store?: string;
  readonly clusterFile?: string;
  readonly nodeType?: string;
  readonly replicationProcesses?: number;
}

export async function serve(flags: ServeFlags): Promise<void> {
  const { dataDir, config: configFile, ...rest } = flags;
  const options: ServeOptions = {
    ...rest,
    ...(dataDir === undefined ? {} : { dataDirectory: dataDir }),
    ...(configFile === undefined ? {} : { configFile }),
  };
  try {
    const notify = notifierOf(process.env);
    const config = readConfig(options, process.env);
    const collected = await openSpans(process.env, VERSION);
    const server = await openServer(
      config,
      createLogWriter({
        level: () => config.log.level,
        format: logFormat(config.log.format, process.stderr.isTTY === true),
      }),
      {
        startProcess: (publicUrl, onCounted) =>
          startChildProgram(
            ["serve", ...replicationFlags(flags)],
            { TANDEM_PUBLIC_URL: publicUrl },
            onCounted,
          ),
        tellParent: parentListener(),
      },
      collected?.spans,
    );
    // A failed node exits. Other nodes take over its jobs; a single node resumes them after a
    // restart.
    void server.failed.then(fail);
    const stop = (): void => {
      setTimeout(() => process.exit(1), STOP_MS_MAX).unref();
      notify("STOPPING=1", tellUnnotified);
      server
        .stop()
        // An unreachable collector does not affect the exit code.
        .then(() => collected?.close().catch(() => {}))
        .then(
          () => process.exit(0),
          (error: unknown) => fail(error),
        );
    };
    onStopSignal(stop);
    onParentGone(stop);
    if (server.url !== undefined) {
      if (!server.administrators) {
        process.stdout.write(
          "no administrator is configured, so every user has administrator rights and the server listens on the loopback address only\n",
        );
      }
      process.stdout.write(`listening on ${server.url}\n`);
      process.stdout.write(`dashboard at ${server.url}/_dashboard/\n`);
      if (server.tlsUrl !== undefined) process.stdout.write(`listening on ${server.tlsUrl}\n`);
    }
    notify("READY=1", tellUnnotified);
  } catch (error) {
    fail(error);
  }
}

/** Command line of a replication process, which has the same options as its node. */
function replicationFlags(flags: ServeFlags): string[] {
  const changed: ServeFlags = { ...flags, nodeType: "replication", replicationProcesses: 0 };
  return Object.entries(changed).map(([name, value]) => {
    const option = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    return `--${option}=${value}`;
  });
}

function tellUnnotified({ message }: Error): void {
  process.stderr.write(`the service manager could not be notified: ${message}\n`);
}

function fail(error: unknown): never {
  reportError(error);
  process.exit();
}
