/** `tandem serve`: a node until SIGTERM or SIGINT. */
import { OperationalError } from "../base/index.ts";
import { createLogWriter } from "../host/index.ts";
import { ConfigError, openServer, readConfig, type ServeOptions } from "../server/index.ts";

/** A stop that takes longer has gone wrong; what is not done then is done by the queue. */
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

export async function serve({ dataDir, config: configFile, ...rest }: ServeFlags): Promise<void> {
  const options: ServeOptions = {
    ...rest,
    ...(dataDir === undefined ? {} : { dataDirectory: dataDir }),
    ...(configFile === undefined ? {} : { configFile }),
  };
  try {
    const config = readConfig(options, process.env);
    const server = await openServer(config, createLogWriter(config.logLevel));
    if (!server.administrators) {
      process.stdout.write(
        "no administrator is configured: whoever reaches this server is one, so it serves the loopback address only\n",
      );
    }
    if (server.url !== undefined) process.stdout.write(`listening on ${server.url}\n`);
    const stop = (): void => {
      setTimeout(() => process.exit(1), STOP_MS_MAX).unref();
      server.stop().then(
        () => process.exit(0),
        (error: unknown) => fail(error),
      );
    };
    process.once("SIGTERM", stop);
    process.once("SIGINT", stop);
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): never {
  const isUsage = error instanceof ConfigError;
  process.stderr.write(`tandem: ${describe(error)}\n`);
  process.exit(isUsage ? 2 : 1);
}

/** The message, and the reason where the error knows one: which folder, which file, what to install. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const reason = error instanceof OperationalError ? error.details.reason : undefined;
  return reason === undefined ? error.message : `${error.message}: ${String(reason)}`;
}
