/** Opens the ports of a node: the port of `[chttpd]` and, if enabled, the TLS port of `[ssl]`. */
import type { Api } from "../api/index.ts";
import { OperationalError, type Runtime } from "../base/index.ts";
import {
  Connections,
  type NodeServerOptions,
  openNodeServer,
  openTlsServer,
} from "../host/index.ts";
import {
  CertificateRefresher,
  readServerCertificates,
  stateOfFiles,
} from "./server-certificates.ts";
import type { ServerConfig } from "./settings/config.ts";
import { ConfigError } from "./settings/settings.ts";
import type { ServerTls } from "./settings/tls-settings.ts";
import type { Service } from "./supervise.ts";

/** The sockets of a node that serves the API. */
export interface Listening {
  readonly port: number;
  /** Port for TLS, if enabled. */
  readonly tlsPort: number | undefined;
  /** Services that reload changed certificates. */
  readonly services: readonly Service[];
  /** Stops accepting connections, ends feeds, and waits for responses in progress. */
  close(): Promise<void>;
}

/**
 * Opens the ports. Rejects with a ConfigError if a setting must be changed: a file of `[ssl]`, the
 * address or a port. Rejects with a SERVER_… error if a retry might succeed.
 */
export async function listen(
  runtime: Runtime,
  { port, bindAddress, tls }: ServerConfig,
  api: Api,
): Promise<Listening> {
  const { trace } = runtime;
  const place = { port, bindAddress, otherPort: "--port or [chttpd] port, 0 for any free port" };
  const connections = new Connections();
  const options = { port, bindAddress, api, trace, connections };
  const plain = await listening(place, openNodeServer(options));
  if (tls === undefined) {
    return { port: plain.port, tlsPort: undefined, services: [], close: () => plain.close() };
  }
  try {
    const { server, refresher } = await listenSecurely(runtime, tls, options);
    return {
      port: plain.port,
      tlsPort: server.port,
      services: [refresher],
      close: async () => {
        await Promise.all([plain.close(), server.close()]);
      },
    };
  } catch (error) {
    await plain.close();
    throw error;
  }
}

async function listenSecurely(
  runtime: Runtime,
  tls: ServerTls,
  { bindAddress, ...shared }: NodeServerOptions,
) {
  const seen = stateOfFiles(tls);
  const certificates = readServerCertificates(tls);
  const { port, clients } = tls;
  const place = { port, bindAddress, otherPort: "[ssl] port" };
  const options = { ...shared, port, bindAddress, certificates, clients };
  const server = await listening(place, openTlsServer(options));
  return { server, refresher: new CertificateRefresher(runtime, tls, server, seen) };
}

interface Place {
  readonly port: number;
  readonly bindAddress: string;
  /** Setting that selects another port, as named in messages. */
  readonly otherPort: string;
}

async function listening<T>(place: Place, opened: Promise<T>): Promise<T> {
  try {
    return await opened;
  } catch (error) {
    throw listenFailure(error, place);
  }
}

/**
 * Converts an error to one that names the address and the remedy. A ConfigError means that a
 * setting must be changed. After other errors a retry might succeed: a port can be freed, an
 * address can appear with the network, and DNS can recover.
 */
export function listenFailure(error: unknown, { port, bindAddress, otherPort }: Place): unknown {
  const { code } = error as NodeJS.ErrnoException;
  const address = `bind address ${bindAddress}`;
  const otherAddress = "choose one with --bind-address or [chttpd] bind_address";
  const numbered = `port ${port} of ${bindAddress}`;
  const configError = (message: string) => new ConfigError(message, { cause: error });
  switch (code) {
    case "EACCES":
      return configError(
        `${numbered}: this user is not permitted to listen on it; choose another with ${otherPort}`,
      );
    case "EADDRNOTAVAIL":
      return new OperationalError(
        "SERVER_ADDRESS_MISSING",
        `${address}: no network interface of this machine has this address; ${otherAddress}`,
        {},
        { cause: error },
      );
    case "ENOTFOUND":
      return configError(`${address}: no host has this name; ${otherAddress}`);
    case "EADDRINUSE":
      return new OperationalError(
        "SERVER_PORT_TAKEN",
        `${numbered}: another program listens there; choose another port with ${otherPort}`,
        {},
        { cause: error },
      );
    case "EAI_AGAIN":
      return new OperationalError(
        "SERVER_NAME_UNRESOLVED",
        `${address}: the name cannot be resolved at present; a numeric address needs no name resolution`,
        {},
        { cause: error },
      );
    default:
      return error;
  }
}
