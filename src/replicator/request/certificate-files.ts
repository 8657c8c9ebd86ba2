/**
 * Certificates in a job are paths on the machine that runs the job. Only server admins may use
 * these paths: the contents of files are never shown, but errors reveal whether a file exists and
 * is a certificate.
 */
import type { Replication } from "./replication.ts";

/** Names in documents and bodies, by member of `TlsSettings`. */
const FIELDS = {
  trustedCertificatesFile: "ssl_trusted_certificates_file",
  certificateFile: "cert_file",
  keyFile: "key_file",
} as const;

/** Returns why the replication requires a server admin; undefined if it does not. */
export function certificateFilesRefusal({
  source,
  target,
}: Pick<Replication, "source" | "target">): string | undefined {
  for (const side of [source, target]) {
    if (side.kind !== "http" || side.tls === undefined) continue;
    for (const [member, field] of Object.entries(FIELDS)) {
      if (side.tls[member as keyof typeof FIELDS] === undefined) continue;
      return `\`${field}\` names a file on the server; this requires server admin rights`;
    }
  }
  return undefined;
}
