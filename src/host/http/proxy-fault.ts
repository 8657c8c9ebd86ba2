/** Distinguishes failures of a proxy from those of the server behind it. */
import { type buildConnector, type Dispatcher, Pool } from "undici";

/** Maximum number of bytes read from a rejection's body. Error messages show fewer. */
const BODY_BYTES_MAX = 4_096;
/** Time limit for a rejection's body, because a proxy might keep the connection open. */
const BODY_MS_MAX = 1_000;

type Connector = buildConnector.connector;

/** A failed connection to a proxy, or a tunnel (CONNECT) that the proxy rejected. */
class ProxyFault extends Error {
  /** The system's error code, or `PROXY_` and the status of the response. */
  readonly fault: string;
  /** Beginning of the body of the proxy's response, if any. */
  readonly text: string | undefined;

  constructor(fault: string, cause?: unknown, text?: string) {
    super("The proxy failed", { cause });
    this.fault = fault;
    this.text = text;
  }
}

/** Returns the text of a response in which a proxy rejects a tunnel. */
export function textOfProxy(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return error instanceof ProxyFault ? error.text : textOfProxy(error.cause);
}

/** Returns the code of a proxy's failure; undefined if something else failed. */
export function faultOfProxy(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof ProxyFault) return error.fault;
  const { code } = error as { readonly code?: unknown };
  if (typeof code === "string" && code.startsWith("UND_ERR_SOCKS5")) return code;
  // undici's error for a 407 to a request that does not use a tunnel.
  if (error.message === "Proxy Authentication Required (407)") return "PROXY_407";
  // undici reports timeouts of SOCKS handshakes without a code.
  if (/^SOCKS5 .* timeout$/.test(error.message)) return "PROXY_TIMEOUT";
  return faultOfProxy(error.cause);
}

/** Returns a connector that marks the errors of connections to a proxy. */
export function toProxy(connect: Connector): Connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error === null) callback(null, socket);
      else callback(faultOf(error), null);
    });
}

/** Pool of connections to a proxy, for CONNECT tunnels. */
export class TunnelPool extends Pool {
  override async connect(options: never): Promise<never> {
    let answer: Dispatcher.ConnectData;
    try {
      answer = await super.connect(options);
    } catch (error) {
      throw faultOf(error);
    }
    if (answer.statusCode === 200) return answer as never;
    const text = await beginningOf(answer);
    throw new ProxyFault(`PROXY_${answer.statusCode}`, undefined, text);
  }
}

/** Reads the beginning of a rejection's body, and closes its connection. */
async function beginningOf({ socket, headers }: Dispatcher.ConnectData): Promise<string> {
  const length = Math.min(Number(headers["content-length"] ?? BODY_BYTES_MAX), BODY_BYTES_MAX);
  const pieces: Buffer[] = [];
  const timer = setTimeout(() => socket.destroy(), BODY_MS_MAX);
  try {
    for await (const piece of length > 0 ? socket : []) {
      pieces.push(piece);
      if (Buffer.concat(pieces).length >= length) break;
    }
  } catch {
    // The connection broke. The part received describes the rejection.
  } finally {
    clearTimeout(timer);
    socket.on("error", () => {}).destroy();
  }
  return Buffer.concat(pieces).subarray(0, length).toString();
}

function faultOf(error: unknown): ProxyFault {
  if (error instanceof ProxyFault) return error;
  const { code } = error as { readonly code?: unknown };
  return new ProxyFault(typeof code === "string" ? code : "PROXY_FAILED", error);
}
