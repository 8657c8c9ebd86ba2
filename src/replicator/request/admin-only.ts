/**
 * Determines which parts of a request are reserved for server admins, because they refer to files
 * or secrets of the machine.
 */
import { certificateFilesRefusal } from "./certificate-files.ts";
import { referencesRefusal } from "./references.ts";
import type { HttpAddress, Replication } from "./replication.ts";

/** Returns why the replication requires a server admin; undefined if it does not. */
export function adminOnlyRefusal(
  replication: Pick<Replication, "source" | "target">,
): string | undefined {
  return certificateFilesRefusal(replication) ?? referencesRefusal(replication);
}

/** Whether the address refers to a secret or file of the machine. */
export function namesMachine(address: HttpAddress): boolean {
  return adminOnlyRefusal({ source: address, target: address }) !== undefined;
}
