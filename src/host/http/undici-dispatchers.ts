/** Connection pools of the process: one per route to a server. */
import type { LookupFunction } from "node:net";
import { type ConnectionOptions, checkServerIdentity, type PeerCertificate } from "node:tls";
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent, Socks5ProxyAgent } from "undici";
import type { Connection, TlsSettings } from "../../http-client/index.ts";
import { percentDecode } from "../../protocol/index.ts";
import { certificateDepth } from "./certificate-depth.ts";
import { STAMP_MS, secureContext, stampOf } from "./certificate-files.ts";
import { type ConnectTo, type ServerAddress, targetOf, urlOfAddress } from "./connect-to.ts";
import { type EgressGuard, serverOf } from "./egress-guard.ts";
import type { EgressRules } from "./egress-rules.ts";
import { TunnelPool, toProxy } from "./proxy-fault.ts";

/**
 * Maximum number of connections per origin, shared by all jobs of the process. Feeds use a
 * separate, unlimited pool, because idle feeds of continuous jobs would block other requests.
 */
const CONNECTIONS_MAX = 200;
/** Time after which an unused pool is closed. */
const UNUSED_MS_MAX = 10 * 60_000;
/** Age at which a pool in use is reopened. */
const AGE_MS_MAX = 24 * 3_600_000;
/**
 * TLS settings for proxies, and for requests without TLS settings of their own (webhooks,
 * commands).
 */
const DEFAULT_TLS: TlsSettings = { verify: true };

/** Settings that can change while pools are open. */
interface PoolSettings {
  readonly idleMsMax: number;
  readonly rules: EgressRules | undefined;
  readonly connectTo: readonly ConnectTo[];
}

type TlsOptions = Pick<
  ConnectionOptions,
  "rejectUnauthorized" | "secureContext" | "checkServerIdentity"
>;

interface OpenDispatcher {
  readonly dispatcher: Dispatcher;
  readonly settings: PoolSettings;
  readonly openedAtMs: number;
  usedAtMs: number;
  readonly tls: TlsSettings;
  /** Version string of the certificate files when the pool was opened. */
  readonly stamp: string;
  stampedAtMs: number;
}

export interface UndiciDispatchersParts {
  /** Maximum idle time of a connection. */
  readonly idleMsMax: () => number;
  /** Returns the address overrides; the same array while they are unchanged. */
  readonly connectTo: () => readonly ConnectTo[];
  readonly guard: EgressGuard | undefined;
}

export class UndiciDispatchers {
  readonly #parts: UndiciDispatchersParts;
  readonly #open = new Map<string, OpenDispatcher>();

  constructor(parts: UndiciDispatchersParts) {
    this.#parts = parts;
  }

  of(connection: Connection): Dispatcher {
    const nowMs = performance.now();
    const settings = this.#settings();
    const key = JSON.stringify(connection);
    const open = this.#open.get(key);
    if (open !== undefined && this.#isCurrent(open, nowMs, settings)) {
      open.usedAtMs = nowMs;
      return open.dispatcher;
    }
    const { tls = DEFAULT_TLS } = connection;
    // Computed before reading the files, so that a change during reading is detected later.
    const stamp = stampOf(tls);
    let dispatcher: Dispatcher;
    try {
      dispatcher = openDispatcher(connection, settings, this.#parts.guard);
    } catch (error) {
      // A certificate file can be renewed before its key file. Opening a pool fails until both
      // match. Until then, the old pool is kept, unless other settings have changed, too.
      const isSameWay =
        open?.settings.rules === settings.rules && open?.settings.connectTo === settings.connectTo;
      if (open === undefined || !isSameWay) throw error;
      open.stampedAtMs = nowMs;
      return open.dispatcher;
    }
    this.#giveUpOld(nowMs, settings);
    const times = { openedAtMs: nowMs, usedAtMs: nowMs, stampedAtMs: nowMs };
    this.#open.set(key, { dispatcher, settings, tls, stamp, ...times });
    return dispatcher;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ dispatcher }) => dispatcher.destroy()));
    this.#open.clear();
  }

  #settings(): PoolSettings {
    const { idleMsMax, connectTo, guard } = this.#parts;
    return { idleMsMax: idleMsMax(), connectTo: connectTo(), rules: guard?.rules };
  }

  /** Whether a pool is not too old and was opened with the current settings and files. */
  #isCurrent(open: OpenDispatcher, nowMs: number, settings: PoolSettings): boolean {
    const isSame =
      open.settings.idleMsMax === settings.idleMsMax &&
      open.settings.rules === settings.rules &&
      open.settings.connectTo === settings.connectTo;
    if (!isSame || nowMs - open.openedAtMs >= AGE_MS_MAX) return false;
    if (nowMs - open.stampedAtMs < STAMP_MS) return true;
    if (stampOf(open.tls) !== open.stamp) return false;
    open.stampedAtMs = nowMs;
    return true;
  }

  /** Closes pools that are unused or too old, or that have outdated settings. */
  #giveUpOld(nowMs: number, settings: PoolSettings): void {
    for (const [key, open] of this.#open) {
      const isUsed = nowMs - open.usedAtMs < UNUSED_MS_MAX;
      if (isUsed && this.#isCurrent(open, nowMs, settings)) continue;
      this.#open.delete(key);
      // Not awaited: `close` waits for requests in progress.
      open.dispatcher.close().catch(() => {});
    }
  }
}

function openDispatcher(
  { proxyUrl, tls = DEFAULT_TLS, isFeed }: Connection,
  { idleMsMax, connectTo }: PoolSettings,
  guard: EgressGuard | undefined,
): Dispatcher {
  let ofServers: TlsOptions | undefined;
  const optionsFor = (origin: string | URL): TlsOptions => {
    if (!isEncrypted(origin)) return {};
    ofServers ??= tlsOptions(tls);
    return ofServers;
  };
  // Unreadable files of the settings have to fail now (see `of`).
  if (hasFiles(tls)) ofServers = tlsOptions(tls);
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
      // undici calls a resolver without the port, so each origin gets its own resolver.
      factory: (origin, options) => {
        const server = serverOf(String(origin));
        const target = targetOf(connectTo, server);
        const connectedUrl = target === undefined ? String(origin) : urlOfAddress(target);
        const own = { ...optionsFor(origin), ...lookupFor(connectedUrl) };
        const connector = target === undefined ? own : connectorTo(target, server.host, own);
        return new Pool(origin, { ...options, connect: connector });
      },
    });
  }
  const requestTls = ofServers ?? tlsOptions(tls);
  const { protocol, username, password } = new URL(proxyUrl);
  if (protocol === "socks5:") {
    // undici reads `requestTls`, but does not declare it.
    const proxyConnect = toProxy(buildConnector(lookupFor(proxyUrl)));
    const options = { ...pool, requestTls, connect: proxyConnect };
    return new Socks5ProxyAgent(proxyUrl, options);
  }
  const [user, secret] = [username, password].map((text) => percentDecode(text) ?? text);
  const pair = `${user}:${secret}`;
  return new ProxyAgent({
    ...pool,
    uri: proxyUrl.replace(/^([a-z]+:\/\/)[^/@]*@/i, "$1"),
    ...(pair === ":" ? {} : { token: `Basic ${Buffer.from(pair).toString("base64")}` }),
    // Proxies forward plain HTTP, and often allow tunnels to port 443 only.
    proxyTunnel: false,
    clientFactory: (url, options) => new TunnelPool(url, options as Pool.Options),
    factory: (origin, options: Pool.Options) => {
      const { connect } = options;
      // If an HTTP proxy forwards plain HTTP, `origin` is that of the proxy; otherwise that of the
      // server.
      const isForwarded = new URL(origin).protocol === "http:" && protocol === "http:";
      if (!isForwarded || typeof connect !== "function") return new Pool(origin, options);
      return new Pool(origin, { ...options, connect: toProxy(connect) });
    },
    requestTls,
    proxyTls: {
      ...(isEncrypted(proxyUrl) ? tlsOptions(DEFAULT_TLS) : {}),
      ...lookupFor(proxyUrl),
    },
  });
}

/**
 * Returns a connector that connects to `target` instead of `host`, but expects the certificate of
 * `host`.
 */
function connectorTo(
  target: ServerAddress,
  host: string,
  options: TlsOptions & { readonly lookup?: LookupFunction },
): buildConnector.connector {
  const { checkServerIdentity: check = checkServerIdentity } = options;
  const connect = buildConnector({
    ...options,
    checkServerIdentity: (_target, certificate) => check(host, certificate),
  });
  // Connects to `target` without changing the member `host`, which determines the SNI name.
  return (asked, callback) =>
    connect({ ...asked, hostname: target.host, port: String(target.port) }, callback);
}

/** Other origins need no TLS context. Parsing the system's certificate bundle takes up to 80 ms. */
function isEncrypted(origin: string | URL): boolean {
  return new URL(origin).protocol === "https:";
}

function hasFiles({ certificateFile, keyFile, trustedCertificatesFile }: TlsSettings): boolean {
  return [certificateFile, keyFile, trustedCertificatesFile].some((file) => file !== undefined);
}

function tlsOptions(settings: TlsSettings): TlsOptions {
  const { verify, depthMax } = settings;
  return {
    rejectUnauthorized: verify,
    secureContext: secureContext(settings),
    checkServerIdentity: (host, certificate) =>
      (depthMax === undefined ? undefined : checkDepth(certificate, depthMax)) ??
      checkServerIdentity(host, certificate),
  };
}

function checkDepth(certificate: PeerCertificate, depthMax: number): Error | undefined {
  if (certificateDepth(certificate) <= depthMax) return undefined;
  return Object.assign(new Error("The certificate chain is too long"), {
    code: "CERT_CHAIN_TOO_LONG",
  });
}
