/** Distinguishes failures of a proxy from those of the server behind it. */
import { type buildConnector, type Dispatcher, Pool } from "undici";

type Connector = buildConnector.connector;

/** A connection to a proxy that failed, or a rejection by the proxy of a tunnel (CONNECT). */
class ProxyFault extends Error {
  /** The system's error code, or `PROXY_` and the status of the response. */
  readonly fault: string;

  constructor(fault: string, cause?: unknown) {
    super("The proxy failed", { cause });
    this.fault = fault;
  }
}

/** Returns the code of a proxy's failure; undefined if something else failed. */
export function faultOfProxy(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof ProxyFault) return error.fault;
  const { code } = error as { readonly code?: unknown };
  if (typeof code === "string" && code.startsWith("UND_ERR_SOCKS5")) return code;
  // undici's error for a 407 without a tunnel.
  if (error.message === "Proxy Authentication Required (407)") return "PROXY_407";
  // undici reports timeouts of SOCKS handshakes without a code.
  if (/^SOCKS5 .* timeout$/.test(error.message)) return "PROXY_TIMEOUT";
  return faultOfProxy(error.cause);
}

/** Marks the errors of connections to a proxy. */
export function toProxy(connect: Connector): Connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error === null) callback(null, socket);
      else callback(faultOf(error), null);
    });
}

/** Connections to a proxy that open tunnels. */
export class TunnelPool extends Pool {
  override async connect(options: never): Promise<never> {
    let answer: Dispatcher.ConnectData;
    try {
      answer = await super.connect(options);
    } catch (error) {
      throw faultOf(error);
    }
    if (answer.statusCode === 200) return answer as never;
    answer.socket.on("error", () => {}).destroy();
    throw new ProxyFault(`PROXY_${answer.statusCode}`);
  }
}

function faultOf(error: unknown): ProxyFault {
  if (error instanceof ProxyFault) return error;
  const { code } = error as { readonly code?: unknown };
  return new ProxyFault(typeof code === "string" ? code : "PROXY_FAILED", error);
}
