/** Connection settings of a request: its proxy and its certificates. */

/** TLS settings. Files are PEM, on the machine that sends the request. */
export interface TlsSettings {
  /** Whether to verify the server's certificate. */
  readonly verify: boolean;
  /** Trusted certificate authorities. Default: those of the operating system. */
  readonly trustedCertificatesFile?: string | undefined;
  /**
   * Maximum number of intermediate certificates between the server certificate and a trusted one.
   */
  readonly depthMax?: number | undefined;
  /** Client certificate. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Passphrase of the key file. */
  readonly password?: string | undefined;
}

/**
 * Connection settings of a request. Requests share connections only if their settings are equal.
 */
export interface Connection {
  /** URL with `http://`, `https://` or `socks5://`, and credentials if the proxy requires them. */
  readonly proxyUrl?: string;
  readonly tls?: TlsSettings;
  /**
   * Generation of the connection. A request with a higher number opens a new connection, because
   * existing ones might be dead without having been reset.
   */
  readonly generation?: number;
  /**
   * Whether the request is a long poll, which the server holds open until something changes. Each
   * long poll gets a separate connection.
   */
  readonly isFeed?: boolean;
}

/** Returns the settings without the client certificate, for a host that must not see it. */
export function withoutIdentity({ tls, ...connection }: Connection): Connection {
  if (tls === undefined) return connection;
  const { certificateFile, keyFile, password, ...kept } = tls;
  return { ...connection, tls: kept };
}
