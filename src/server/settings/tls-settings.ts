/** `[ssl]`: how the API is served over TLS, with CouchDB's names. Read when a node starts. */
import { getCiphers, type SecureVersion } from "node:tls";
import {
  booleanSetting,
  ConfigError,
  integerSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  textSetting,
  unusable,
} from "./settings.ts";

const SECTION = "ssl";

/** All files are PEM. */
export interface ServerTls {
  /** 0 picks a free one. */
  readonly port: number;
  /** The server's certificate, and those between it and its authority. */
  readonly certificateFile: string;
  readonly keyFile: string;
  /** Of the key file. */
  readonly password: string | undefined;
  /** Authorities: of the server's own certificate, and of clients. */
  readonly authoritiesFile: string | undefined;
  /** Undefined: clients are not asked for certificates. */
  readonly clients: ClientCertificates | undefined;
  readonly versions: TlsVersions;
  /** OpenSSL's names, with colons between them; undefined: Node's own list. */
  readonly ciphers: string | undefined;
}

export interface ClientCertificates {
  /** Whether a client without a certificate is refused; one with a wrong certificate always is. */
  readonly areRequired: boolean;
  /** Most certificates between a client's own and a trusted one. */
  readonly depthMax: number;
}

export interface TlsVersions {
  readonly min: SecureVersion;
  readonly max: SecureVersion;
}

interface TlsTexts extends Omit<ServerTls, "certificateFile" | "keyFile" | "clients"> {
  readonly isEnabled: boolean;
  readonly certificateFile: string | undefined;
  readonly keyFile: string | undefined;
  readonly verifiesClients: boolean;
  readonly requiresClientCertificates: boolean;
  readonly depthMax: number;
  /** OpenSSL never does it otherwise. */
  readonly renegotiatesSecurely: true;
  /** A function of Erlang. */
  readonly verifyFunction: undefined;
}

/** CouchDB's names of the versions, in their order; the older ones are given up (RFC 8996). */
const VERSIONS: readonly (readonly [string, SecureVersion])[] = [
  ["tlsv1.2", "TLSv1.2"],
  ["tlsv1.3", "TLSv1.3"],
];

const SETTINGS: SettingsOf<TlsTexts> = {
  isEnabled: booleanSetting(SECTION, "enable", false),
  port: integerSetting(SECTION, "port", 6984, { min: 0, max: 65_535 }),
  certificateFile: textSetting(SECTION, "cert_file", undefined),
  keyFile: textSetting(SECTION, "key_file", undefined),
  password: textSetting(SECTION, "password", undefined),
  authoritiesFile: textSetting(SECTION, "cacert_file", undefined),
  verifiesClients: booleanSetting(SECTION, "verify_ssl_certificates", false),
  requiresClientCertificates: booleanSetting(SECTION, "fail_if_no_peer_cert", false),
  depthMax: integerSetting(SECTION, "ssl_certificate_max_depth", 1, { min: 0 }),
  versions: {
    section: SECTION,
    key: "tls_versions",
    read: readVersions,
    defaultText: VERSIONS.map(([name]) => name).join(", "),
  },
  ciphers: { section: SECTION, key: "ciphers", read: readCiphers },
  renegotiatesSecurely: fixed<true>("secure_renegotiate", true, "true"),
  verifyFunction: fixed("verify_fun", undefined, "nothing: a function of Erlang cannot be called"),
};

export const SERVER_TLS_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

/** Undefined if `[ssl] enable` is not true. Throws a ConfigError when something that is needed is not named. */
export function readServerTls(texts: SettingTexts): ServerTls | undefined {
  const settings = { ...liveSettings(texts, SETTINGS) };
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
  return new ConfigError(`[ssl] ${key}: expected a file, as [ssl] ${because} = true`);
}

function failWith(error: Error): never {
  throw error;
}

/** Erlang's `['tlsv1.2', 'tlsv1.3']`, or the names alone. */
function readVersions(text: string | undefined): TlsVersions {
  const names = listed(text);
  const chosen = VERSIONS.filter(([name]) => names.includes(name) || names.length === 0);
  const isKnown = names.every((name) => VERSIONS.some(([known]) => known === name));
  const [first, last] = [chosen[0], chosen.at(-1)];
  if (first !== undefined && last !== undefined && isKnown) return { min: first[1], max: last[1] };
  const expected = `a list of ${VERSIONS.map(([name]) => name).join(", ")}`;
  throw unusable({ section: SECTION, key: "tls_versions" }, text ?? "", expected);
}

/** Erlang's `["ECDHE-ECDSA-AES128-GCM-SHA256", …]`, or the names alone. */
function readCiphers(text: string | undefined): string | undefined {
  const names = listed(text);
  if (names.length === 0) return undefined;
  const known = new Set(getCiphers());
  if (names.every((name) => known.has(name.toLowerCase()))) return names.join(":");
  const expected = "a list of OpenSSL's names, such as ECDHE-ECDSA-AES128-GCM-SHA256";
  throw unusable({ section: SECTION, key: "ciphers" }, text ?? "", expected);
}

function listed(text = ""): readonly string[] {
  const inner = /^\[(.*)\]$/.exec(text.trim())?.[1] ?? text;
  return inner
    .split(/[,:|]/)
    .map((name) => name.trim().replace(/^(["'])(.*)\1$/, "$2"))
    .filter((name) => name !== "");
}

/** A setting that has one value. */
function fixed<T>(key: string, value: T, expected: string): Setting<T> {
  return {
    section: SECTION,
    key,
    read(text) {
      if (text === undefined || text === "" || text === String(value)) return value;
      throw unusable({ section: SECTION, key }, text, expected);
    },
  };
}
