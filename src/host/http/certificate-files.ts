/** Certificate and key files for outgoing connections. Renewed files are used within `STAMP_MS`. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
import { OperationalError } from "../../base/index.ts";
import type { TlsSettings } from "../../http-client/index.ts";

/** Interval at which a connection pool checks whether its files have changed. */
export const STAMP_MS = 10_000;

/** Certificate bundles of Debian, Red Hat, SUSE, Alpine, macOS and the BSDs. */
const SYSTEM_FILES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/**
 * Returns the TLS context shared by all connections of a pool. It is shared because parsing the
 * system's certificate bundle takes milliseconds. Without a system bundle, the bundle of Node.js is
 * used.
 */
export function secureContext(settings: TlsSettings): SecureContext {
  const { certificateFile, keyFile, password } = settings;
  const authorities = authorityFiles(settings);
  return createSecureContext({
    ...(authorities.length === 0 ? {} : { ca: authorities.map(readPem) }),
    ...(certificateFile === undefined ? {} : { cert: readPem(certificateFile) }),
    ...(keyFile === undefined ? {} : { key: readPem(keyFile) }),
    ...(password === undefined ? {} : { passphrase: password }),
  });
}

/** Returns a string that changes when one of the files changes. */
export function stampOf(settings: TlsSettings): string {
  const { certificateFile, keyFile } = settings;
  const files = [...authorityFiles(settings), certificateFile, keyFile];
  return files
    .map((file) => {
      const stat = file === undefined ? undefined : statSync(file, { throwIfNoEntry: false });
      return `${stat?.mtimeMs}-${stat?.size}-${stat?.ino}`;
    })
    .join(" ");
}

function authorityFiles({ trustedCertificatesFile }: TlsSettings): readonly string[] {
  if (trustedCertificatesFile !== undefined) return [trustedCertificatesFile];
  const { SSL_CERT_FILE, NODE_EXTRA_CA_CERTS } = process.env;
  const system = [SSL_CERT_FILE, ...SYSTEM_FILES].find((file) => file && existsSync(file));
  if (system === undefined) return [];
  const extra = NODE_EXTRA_CA_CERTS && existsSync(NODE_EXTRA_CA_CERTS) ? [NODE_EXTRA_CA_CERTS] : [];
  return [system, ...extra];
}

function readPem(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const reason = `${file}: ${(error as NodeJS.ErrnoException).code}`;
    throw new OperationalError(
      "HTTP_CERTIFICATE_UNREADABLE",
      "A certificate cannot be read",
      { reason },
      { cause: error },
    );
  }
}
