/** What only server admins may ask for, because it concerns the machine that runs the job. */
import { certificateFilesRefusal } from "./certificate-files.ts";
import { referencesRefusal } from "./references.ts";
import type { Replication } from "./replication.ts";

/** Why a user who is not a server admin may not have this replication; undefined when they may. */
export function adminOnlyRefusal(replication: Replication): string | undefined {
  return certificateFilesRefusal(replication) ?? referencesRefusal(replication);
}
