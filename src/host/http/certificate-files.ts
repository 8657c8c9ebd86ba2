/** Files of certificates and keys for outgoing connections. A renewed file counts within `STAMP_MS`. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
import { OperationalError } from "../../base/index.ts";
import type { TlsSettings } from "../../http-client/index.ts";

/** How often the files of a pool of connections are compared with those that it was opened with. */
export const STAMP_MS = 10_000;

/** Where systems keep the authorities that they trust: Debian, Red Hat, SUSE, and Alpine, macOS and the BSDs. */
const SYSTEM_FILES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/**
 * Made once for all connections of a pool: to read a system's authorities takes milliseconds. Where the system has no file
 * of them, those of Node.js count.
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

/** Changes when one of the files does. */
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
