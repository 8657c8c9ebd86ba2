/** `[ssl]`: TLS for the API, with CouchDB's names. Read at startup. */
import { getCiphers, type SecureVersion } from "node:tls";
import {
  ConfigError,
  liveSettings,
  type Parsed,
  type SettingTexts,
  sectionOf,
  type Values,
} from "./settings.ts";

/** TLS settings of the API. All files are PEM. */
export interface ServerTls {
  /** The port; 0 selects a free port. */
  readonly port: number;
  /** File with the server's certificate and the intermediate certificates. */
  readonly certificateFile: string;
  readonly keyFile: string;
  /** Passphrase of the key file. */
  readonly password: string | undefined;
  /** File with the authorities that issued the server's own certificate and those of clients. */
  readonly authoritiesFile: string | undefined;
  /** Requirements for client certificates; undefined if clients are not asked for certificates. */
  readonly clients: ClientCertificates | undefined;
  readonly versions: TlsVersions;
  /** OpenSSL names of the ciphers, separated by colons. Default: the ciphers of Node.js. */
  readonly ciphers: string | undefined;
}

export interface ClientCertificates {
  /**
   * Whether a client without a certificate is rejected. A client with an invalid certificate is
   * always rejected.
   */
  readonly areRequired: boolean;
  /** Maximum number of intermediate certificates between a client certificate and a trusted one. */
  readonly depthMax: number;
}

export interface TlsVersions {
  readonly min: SecureVersion;
  readonly max: SecureVersion;
}

/** CouchDB's version names, in order. Older versions are deprecated (RFC 8996). */
const VERSIONS: readonly (readonly [string, SecureVersion])[] = [
  ["tlsv1.2", "TLSv1.2"],
  ["tlsv1.3", "TLSv1.3"],
];

const { flag, integer, parsed, text } = sectionOf("ssl", { waitsForStart: true });

export const SERVER_TLS_SETTINGS = {
  isEnabled: flag("enable", false, { meaning: "whether TLS is served" }),
  port: integer("port", 6984, {
    min: 0,
    max: 65_535,
    meaning: "0 picks a free port, which is printed",
  }),
  certificateFile: text("cert_file", undefined, {
    meaning: "certificate, followed by intermediate certificates (PEM)",
  }),
  keyFile: text("key_file", undefined, { meaning: "key of the certificate (PEM)" }),
  password: text("password", undefined, { meaning: "passphrase of the key file" }),
  authoritiesFile: text("cacert_file", undefined, {
    meaning: "trusted authorities (PEM) for client and server certificates",
  }),
  verifiesClients: flag("verify_ssl_certificates", false, {
    meaning:
      "whether to ask clients for certificates, and reject invalid ones; needs `cacert_file`. A certificate does not identify a user",
  }),
  requiresClientCertificates: flag("fail_if_no_peer_cert", false, {
    meaning: "whether clients without a certificate are rejected too",
  }),
  depthMax: integer("ssl_certificate_max_depth", 1, {
    min: 0,
    meaning: "maximum number of intermediate certificates",
  }),
  versions: parsed<TlsVersions>("tls_versions", {
    default: { min: "TLSv1.2", max: "TLSv1.3" },
    defaultText: VERSIONS.map(([name]) => name).join(", "),
    meaning: "one version or both, also as `['tlsv1.2', 'tlsv1.3']`. CouchDB: also older ones",
    parse: parseVersions,
  }),
  ciphers: parsed<string | undefined>("ciphers", {
    default: undefined,
    defaultWords: "Node's",
    meaning:
      'a list of OpenSSL\'s names, also in the form `["ECDHE-RSA-AES128-GCM-SHA256"]`. CouchDB: also Erlang tuples',
    parse: parseCiphers,
  }),
  /** `true` is the only value that OpenSSL supports. */
  renegotiatesSecurely: parsed<true>("secure_renegotiate", {
    default: true,
    meaning: "only `true` is accepted",
    parse: (text) => (text === "true" ? { value: true } : { expected: "true" }),
  }),
  verifyFunction: parsed<undefined>("verify_fun", {
    default: undefined,
    meaning: "refused: it names a function of Erlang",
    parse: () => ({ expected: "no value, because functions of Erlang cannot be called" }),
  }),
};

/**
 * Reads the settings of `[ssl]`. Returns `undefined` if `enable` is not true. Throws a ConfigError
 * if a required setting is missing.
 */
export function readServerTls(texts: SettingTexts): ServerTls | undefined {
  const settings = liveSettings<Values<typeof SERVER_TLS_SETTINGS>>(texts, SERVER_TLS_SETTINGS);
  const { isEnabled, verifiesClients, requiresClientCertificates, depthMax } = settings;
  if (!isEnabled) return undefined;
  const { port, password, versions, ciphers, authoritiesFile } = settings;
  if (verifiesClients && authoritiesFile === undefined) {
    throw missing("cacert_file", "verify_ssl_certificates");
  }
  return {
    ...{ port, password, versions, ciphers, authoritiesFile },
    certificateFile: settings.certificateFile ?? failWith(missing("cert_file", "enable")),
    keyFile: settings.keyFile ?? failWith(missing("key_file", "enable")),
    clients: verifiesClients ? { areRequired: requiresClientCertificates, depthMax } : undefined,
  };
}

function missing(key: string, because: string): ConfigError {
  return new ConfigError(`[ssl] ${key}: expected a file, because [ssl] ${because} = true`);
}

function failWith(error: Error): never {
  throw error;
}

/** Parses Erlang's `['tlsv1.2', 'tlsv1.3']`, or the names alone. */
function parseVersions(text: string): Parsed<TlsVersions> {
  const names = namesIn(text);
  const chosen = VERSIONS.filter(([name]) => names.includes(name) || names.length === 0);
  const isKnown = names.every((name) => VERSIONS.some(([known]) => known === name));
  const [first, last] = [chosen[0], chosen.at(-1)];
  return first !== undefined && last !== undefined && isKnown
    ? { value: { min: first[1], max: last[1] } }
    : { expected: `a list of ${VERSIONS.map(([name]) => name).join(", ")}` };
}

/** Parses Erlang's `["ECDHE-ECDSA-AES128-GCM-SHA256", …]`, or the names alone. */
function parseCiphers(text: string): Parsed<string | undefined> {
  const names = namesIn(text);
  if (names.length === 0) return { value: undefined };
  const known = new Set(getCiphers());
  if (names.every((name) => known.has(name.toLowerCase()))) return { value: names.join(":") };
  return { expected: "a list of OpenSSL's names, such as ECDHE-ECDSA-AES128-GCM-SHA256" };
}

function namesIn(text: string): readonly string[] {
  const inner = /^\[(.*)\]$/.exec(text.trim())?.[1] ?? text;
  return inner
    .split(/[,:|]/)
    .map((name) => name.trim().replace(/^(["'])(.*)\1$/, "$2"))
    .filter((name) => name !== "");
}
