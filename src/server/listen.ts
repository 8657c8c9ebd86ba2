/** Where a node listens: on the port of `[chttpd]`, and over TLS on the one of `[ssl]` if that is enabled. */
import type { Api } from "../api/index.ts";
import type { Runtime } from "../base/index.ts";
import { openNodeServer, openTlsServer } from "../host/index.ts";
import {
  CertificateRefresher,
  readServerCertificates,
  stateOfFiles,
} from "./server-certificates.ts";
import type { ServerConfig } from "./settings/config.ts";
import type { ServerTls } from "./settings/tls-settings.ts";
import type { Service } from "./supervise.ts";

/** The sockets of a node that serves the API. */
export interface Listening {
  readonly port: number;
  /** Undefined when no TLS is served. */
  readonly tlsPort: number | undefined;
  /** What keeps it up to date. */
  readonly services: readonly Service[];
  /** Accepts nothing new, ends feeds and waits for the answers that are under way. */
  close(): Promise<void>;
}

/** Rejects with a ConfigError when a file of `[ssl]` cannot be used. */
export async function listen(
  runtime: Runtime,
  { port, bindAddress, tls }: ServerConfig,
  api: Api,
): Promise<Listening> {
  const { trace } = runtime;
  const plain = await openNodeServer({ port, bindAddress, api, trace });
  if (tls === undefined) {
    return { port: plain.port, tlsPort: undefined, services: [], close: () => plain.close() };
  }
  try {
    const { server, refresher } = await listenSecurely(runtime, { tls, bindAddress }, api);
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
  { tls, bindAddress }: { readonly tls: ServerTls; readonly bindAddress: string },
  api: Api,
) {
  const seen = stateOfFiles(tls);
  const certificates = readServerCertificates(tls);
  const { port, clients } = tls;
  const { trace } = runtime;
  const server = await openTlsServer({ port, bindAddress, api, trace, certificates, clients });
  return { server, refresher: new CertificateRefresher(runtime, tls, server, seen) };
}
