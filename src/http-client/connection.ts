/** Connection settings of a request: its proxy and its certificates. */

/** TLS settings. Files are PEM, on the machine that sends the request. */
export interface TlsSettings {
  /** Whether to verify the server's certificate. */
  readonly verify: boolean;
  /** Trusted certificate authorities. Default: those of the operating system. */
  readonly trustedCertificatesFile?: string | undefined;
  /** Maximum number of intermediate certificates between the server's and a trusted one. */
  readonly depthMax?: number | undefined;
  /** Client certificate. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Passphrase of the key file. */
  readonly password?: string | undefined;
}

/** Requests with equal settings share connections; others never do. */
export interface Connection {
  /** `http://`, `https://` or `socks5://`, with credentials if the proxy requires them. */
  readonly proxyUrl?: string;
  readonly tls?: TlsSettings;
  /**
   * A higher number requests new connections, because the existing ones may be dead without a
   * reset.
   */
  readonly generation?: number;
  /**
   * For long polls, which the server holds open until something changes. Each gets a connection of
   * its own.
   */
  readonly isFeed?: boolean;
}

/** The same connection for a host that must not see the client certificate. */
export function withoutIdentity({ tls, ...connection }: Connection): Connection {
  if (tls === undefined) return connection;
  const { certificateFile, keyFile, password, ...kept } = tls;
  return { ...connection, tls: kept };
}
