/** The connections of a process: one pool for each way to a server, shared by all requests that go that way. */
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent, Socks5ProxyAgent } from "undici";
import type { Connection, TlsSettings } from "../../http-client/index.ts";
import { percentDecode } from "../../protocol/index.ts";
import { certificateDepth } from "./certificate-depth.ts";
import { STAMP_MS, secureContext, stampOf } from "./certificate-files.ts";
import type { EgressGuard } from "./egress-guard.ts";
import type { EgressRules } from "./egress-rules.ts";

/**
 * Connections to one origin, shared by all jobs of the process. Feeds have others, without a limit: those of continuous jobs rest in
 * the server, and would keep the answers of all others from coming.
 */
const CONNECTIONS_MAX = 200;
/** Pools that are unused for so long are closed; those used longer are opened again. */
const UNUSED_MS_MAX = 10 * 60_000;
const AGE_MS_MAX = 24 * 3_600_000;
/** For requests that say nothing of TLS, such as those of webhooks and commands, and for proxies. */
const DEFAULT_TLS: TlsSettings = { verify: true };

interface OpenDispatcher {
  readonly dispatcher: Dispatcher;
  readonly idleMsMax: number;
  readonly rules: EgressRules | undefined;
  readonly openedAtMs: number;
  usedAtMs: number;
  readonly tls: TlsSettings;
  /** Of the files of certificates that it was opened with. */
  readonly stamp: string;
  stampedAtMs: number;
}

export class UndiciDispatchers {
  readonly #idleMsMax: () => number;
  readonly #guard: EgressGuard | undefined;
  readonly #open = new Map<string, OpenDispatcher>();

  /** `idleMsMax`: how long an unused connection is kept; asked again for each request. `guard`: chooses among the addresses of a host. */
  constructor(idleMsMax: () => number, guard?: EgressGuard) {
    this.#idleMsMax = idleMsMax;
    this.#guard = guard;
  }

  of(connection: Connection): Dispatcher {
    const nowMs = performance.now();
    const idleMsMax = this.#idleMsMax();
    const key = JSON.stringify(connection);
    const open = this.#open.get(key);
    if (open !== undefined && this.#isCurrent(open, nowMs, idleMsMax)) {
      open.usedAtMs = nowMs;
      return open.dispatcher;
    }
    const { tls = DEFAULT_TLS } = connection;
    // Before the files are read: one that changes meanwhile is read again.
    const stamp = stampOf(tls);
    let dispatcher: Dispatcher;
    try {
      dispatcher = openDispatcher(connection, idleMsMax, this.#guard);
    } catch (error) {
      // A certificate may be renewed before its key is.
      if (open === undefined || open.rules !== this.#guard?.rules) throw error;
      open.stampedAtMs = nowMs;
      return open.dispatcher;
    }
    this.#giveUpOld(nowMs, idleMsMax);
    const rules = this.#guard?.rules;
    const times = { openedAtMs: nowMs, usedAtMs: nowMs, stampedAtMs: nowMs };
    this.#open.set(key, { dispatcher, idleMsMax, rules, tls, stamp, ...times });
    return dispatcher;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ dispatcher }) => dispatcher.destroy()));
    this.#open.clear();
  }

  /** Whether a pool is young enough, and was opened under the present settings. */
  #isCurrent(open: OpenDispatcher, nowMs: number, idleMsMax: number): boolean {
    const isSame = open.idleMsMax === idleMsMax && open.rules === this.#guard?.rules;
    if (!isSame || nowMs - open.openedAtMs >= AGE_MS_MAX) return false;
    if (nowMs - open.stampedAtMs < STAMP_MS) return true;
    if (stampOf(open.tls) !== open.stamp) return false;
    open.stampedAtMs = nowMs;
    return true;
  }

  /** Pools that are unused, too old, or were opened under other settings. */
  #giveUpOld(nowMs: number, idleMsMax: number): void {
    for (const [key, open] of this.#open) {
      const isUsed = nowMs - open.usedAtMs < UNUSED_MS_MAX;
      if (isUsed && this.#isCurrent(open, nowMs, idleMsMax)) continue;
      this.#open.delete(key);
      // Waits for requests that are still on their way.
      open.dispatcher.close().catch(() => {});
    }
  }
}

function openDispatcher(
  { proxyUrl, tls, isFeed }: Connection,
  idleMsMax: number,
  guard: EgressGuard | undefined,
): Dispatcher {
  const connect = tls && tlsOptions(tls);
  const pool = {
    connections: isFeed ? null : CONNECTIONS_MAX,
    keepAliveTimeout: idleMsMax,
    keepAliveMaxTimeout: idleMsMax,
    pipelining: 1,
  };
  const lookupFor = (url: string) => (guard === undefined ? {} : { lookup: guard.lookupFor(url) });
  if (proxyUrl === undefined) {
    return new Agent({
      ...pool,
      // A connection is not told for which port it resolves a name, so each origin has a resolver of its own.
      factory: (origin, options) =>
        new Pool(origin, {
          ...options,
          connect: { ...(connect ?? defaultOptions(origin)), ...lookupFor(String(origin)) },
        }),
    });
  }
  const requestTls = connect ?? tlsOptions(DEFAULT_TLS);
  const { protocol, username, password } = new URL(proxyUrl);
  if (protocol === "socks5:") {
    // `requestTls` is read, but not among its declared options.
    const proxyConnect = buildConnector(lookupFor(proxyUrl));
    const options = { ...pool, requestTls, connect: proxyConnect };
    return new Socks5ProxyAgent(proxyUrl, options);
  }
  const [user, secret] = [username, password].map((text) => percentDecode(text) ?? text);
  const pair = `${user}:${secret}`;
  return new ProxyAgent({
    ...pool,
    uri: proxyUrl.replace(/^([a-z]+:\/\/)[^/@]*@/i, "$1"),
    ...(pair === ":" ? {} : { token: `Basic ${Buffer.from(pair).toString("base64")}` }),
    // Proxies let plain requests pass as such, and often tunnels to port 443 only.
    proxyTunnel: false,
    requestTls,
    proxyTls: { ...defaultOptions(proxyUrl), ...lookupFor(proxyUrl) },
  });
}

/** Reads the authorities of the system only for an origin that speaks TLS. */
function defaultOptions(origin: string | URL): buildConnector.BuildOptions {
  return new URL(origin).protocol === "https:" ? tlsOptions(DEFAULT_TLS) : {};
}

function tlsOptions(settings: TlsSettings): buildConnector.BuildOptions {
  const { verify, depthMax } = settings;
  return {
    rejectUnauthorized: verify,
    secureContext: secureContext(settings),
    ...(depthMax === undefined
      ? {}
      : {
          checkServerIdentity: (host, certificate) =>
            checkDepth(certificate, depthMax) ?? checkServerIdentity(host, certificate),
        }),
  };
}

function checkDepth(certificate: PeerCertificate, depthMax: number): Error | undefined {
  if (certificateDepth(certificate) <= depthMax) return undefined;
  return Object.assign(new Error("The certificate chain is too long"), {
    code: "CERT_CHAIN_TOO_LONG",
  });
}
