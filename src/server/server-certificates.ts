/** The files of `[ssl]`. They are read at startup, and again when they change. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Runtime } from "../base/index.ts";
import type { ServerCertificates, TlsNodeServer } from "../host/index.ts";
import { ConfigError } from "./settings/settings.ts";
import type { ServerTls } from "./settings/tls-settings.ts";

/** Interval at which the files are checked for changes. */
const INTERVAL_MS = 5_000;

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Reads the files. Throws a ConfigError that names the setting if a file is unusable. */
export function readServerCertificates(tls: ServerTls): ServerCertificates {
  const { certificateFile, keyFile, password, authoritiesFile, versions, ciphers } = tls;
  const cert = readFile("cert_file", certificateFile);
  const key = readFile("key_file", keyFile);
  const [own] = parseCertificates("cert_file", certificateFile, cert);
  if (own?.checkPrivateKey(parseKey(tls, key)) !== true) {
    throw unusable("key_file", keyFile, `the key of the certificate in ${certificateFile}`);
  }
  const ca = authoritiesFile && readFile("cacert_file", authoritiesFile);
  if (ca !== undefined) parseCertificates("cacert_file", authoritiesFile ?? "", ca);
  const certificates: ServerCertificates = {
    cert,
    key,
    minVersion: versions.min,
    maxVersion: versions.max,
    ...(password === undefined ? {} : { passphrase: password }),
    ...(ca === undefined ? {} : { ca }),
    ...(ciphers === undefined ? {} : { ciphers }),
  };
  try {
    createSecureContext(certificates);
  } catch (error) {
    throw new ConfigError(
      `[ssl]: TLS cannot be served with these files: ${(error as Error).message}`,
    );
  }
  return certificates;
}

/**
 * Reloads the certificates when their files change. If a changed file is unusable, the error is
 * reported, and the server continues to use the previous certificates.
 */
export class CertificateRefresher {
  readonly name = "server.certificate-refresher";
  readonly #runtime: Runtime;
  readonly #tls: ServerTls;
  readonly #server: TlsNodeServer;
  #seen: string;

  /** `seen` is what `stateOfFiles` returned before the server's certificates were read. */
  constructor(runtime: Runtime, tls: ServerTls, server: TlsNodeServer, seen: string) {
    this.#runtime = runtime;
    this.#tls = tls;
    this.#server = server;
    this.#seen = seen;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#runtime.clock.sleep(INTERVAL_MS, signal).catch(() => {});
      if (!signal.aborted) this.#refresh();
    }
  }

  #refresh(): void {
    const state = stateOfFiles(this.#tls);
    if (state === this.#seen) return;
    this.#seen = state;
    const { trace } = this.#runtime;
    try {
      this.#server.useCertificates(readServerCertificates(this.#tls));
      trace.event("tls.certificates-read", {});
    } catch (error) {
      trace.event("tls.certificates-refused", { error: (error as Error).message });
    }
  }
}

/** Returns a fingerprint of the files, which changes whenever one of the files changes. */
export function stateOfFiles({ certificateFile, keyFile, authoritiesFile }: ServerTls): string {
  const states = [certificateFile, keyFile, authoritiesFile].map((file) => {
    const found = file === undefined ? undefined : statSync(file, { throwIfNoEntry: false });
    return found && [found.ino, found.mtimeMs, found.ctimeMs, found.size];
  });
  return JSON.stringify(states);
}

function readFile(key: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw unusable(key, file, `a file that can be read (${code})`, error);
  }
}

function parseCertificates(key: string, file: string, pem: string): readonly X509Certificate[] {
  try {
    const parsed = (pem.match(CERTIFICATES) ?? []).map((one) => new X509Certificate(one));
    if (parsed.length > 0) return parsed;
  } catch (error) {
    throw unusable(key, file, "certificates in PEM", error);
  }
  throw unusable(key, file, "certificates in PEM");
}

/**
 * Parses the key. OpenSSL's error message is replaced, because it names neither the setting nor the
 * file.
 */
function parseKey({ keyFile, password }: ServerTls, pem: string): KeyObject {
  try {
    return createPrivateKey({
      key: pem,
      ...(password === undefined ? {} : { passphrase: password }),
    });
  } catch (error) {
    if (!/BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(pem)) {
      throw unusable("key_file", keyFile, "a private key in PEM", error);
    }
    // The message must not contain the password that was tried.
    throw new ConfigError(`[ssl] password: expected the password of ${keyFile}`, { cause: error });
  }
}

function unusable(key: string, file: string, expected: string, cause?: unknown): ConfigError {
  return new ConfigError(`[ssl] ${key} = ${file}: expected ${expected}`, { cause });
}
