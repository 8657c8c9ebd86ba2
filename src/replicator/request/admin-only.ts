/** What only server admins may ask for, because it concerns the machine that runs the job. */
import { certificateFilesRefusal } from "./certificate-files.ts";
import { referencesRefusal } from "./references.ts";
import type { HttpAddress, Replication } from "./replication.ts";

/** Why a user who is not a server admin may not have this replication; undefined when they may. */
export function adminOnlyRefusal(
  replication: Pick<Replication, "source" | "target">,
): string | undefined {
  return certificateFilesRefusal(replication) ?? referencesRefusal(replication);
}

/** Whether the address names a secret or a file of the machine. */
export function namesMachine(address: HttpAddress): boolean {
  return adminOnlyRefusal({ source: address, target: address }) !== undefined;
}
