/** The way to a server: its proxy and its certificates. */

/** Files are PEM, read on the machine that sends the request. */
export interface TlsSettings {
  /** Whether the server must prove who it is. */
  readonly verify: boolean;
  /** Who is trusted to certify servers; the system's list if absent. */
  readonly trustedCertificatesFile?: string | undefined;
  /** Most certificates between the server's own and a trusted one. */
  readonly depthMax?: number | undefined;
  /** With which certificate we prove who we are. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Of the key file. */
  readonly password?: string | undefined;
}

/** Requests with equal settings share connections; none is shared otherwise. */
export interface Connection {
  /** `http://`, `https://` or `socks5://`, with credentials if the proxy wants them. */
  readonly proxyUrl?: string;
  readonly tls?: TlsSettings;
  /** A higher number asks for connections that are new: the old ones may be dead without a word. */
  readonly generation?: number;
  /** For requests that the server may hold back as long as nothing changes: as many connections as there are of them. */
  readonly isFeed?: boolean;
}

/** The same way to a host that is not to learn who we are. */
export function withoutIdentity({ tls, ...connection }: Connection): Connection {
  if (tls === undefined) return connection;
  const { certificateFile, keyFile, password, ...kept } = tls;
  return { ...connection, tls: kept };
}
