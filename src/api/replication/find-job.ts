/** Finds the job named by `{id}` in a path: a replication id, or the name of a job. */
import { authorityOf } from "../../databases/index.ts";
import type { JobEntry, Replicator } from "../../replicator/index.ts";
import { securitySubject } from "../access/database-access.ts";
import { type Call, parameter } from "../http/call.ts";
import { noSuch } from "./no-such.ts";

export interface FindJobParts {
  readonly replicator: Replicator;
}

/** Returns the job that the path names. Throws a ProtocolError 404 if there is no such job. */
export async function findJob({ replicator }: FindJobParts, call: Call): Promise<JobEntry> {
  const name = parameter(call, "id");
  const asker = authorityOf(securitySubject(call.user));
  // A plus that the client failed to escape was decoded as a space.
  for (const one of new Set([name.replaceAll(" ", "+"), name])) {
    const ids = await replicator.named.idsOf(one, asker);
    const found = await replicator.lists.entries(ids);
    for (const id of ids) {
      const entry = found.get(id);
      if (entry !== undefined) return entry;
    }
  }
  const hint =
    "use DATABASE/DOCUMENT, RULE/DATABASE, or an id shown by /_tandem/jobs and `tandem jobs list`";
  throw noSuch("job", name, hint);
}
