/**
 * Certificates that a job names are files of the machine that runs it. No content of a file is shown, but the errors
 * tell whether it exists and is a certificate. So only server admins may name one.
 */
import type { Replication } from "./replication.ts";

/** By the member of `TlsSettings`, what documents and bodies call it. */
const FIELDS = {
  trustedCertificatesFile: "ssl_trusted_certificates_file",
  certificateFile: "cert_file",
  keyFile: "key_file",
} as const;

/** Why a user who is not a server admin may not have this replication; undefined when they may. */
export function certificateFilesRefusal({
  source,
  target,
}: Pick<Replication, "source" | "target">): string | undefined {
  for (const side of [source, target]) {
    if (side.kind !== "http" || side.tls === undefined) continue;
    for (const [member, field] of Object.entries(FIELDS)) {
      if (side.tls[member as keyof typeof FIELDS] === undefined) continue;
      return `\`${field}\` names a file of the server: only a server admin may`;
    }
  }
  return undefined;
}
