/**
 * Finds the job named by `{id}` in a path: a replication id, or `database/document` of a
 * replication document.
 */
import type { DatabaseRegistry } from "../../databases/index.ts";
import { authorityOf } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import type { JobEntry, Replicator } from "../../replicator/index.ts";
import { securitySubject } from "../access/database-access.ts";
import { type Call, parameter } from "../http/call.ts";
import { noSuch } from "./no-such.ts";

export interface FindJobParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly replicator: Replicator;
}

const REPLICATOR_DATABASE = "_replicator";

/** Returns the job that the path names. Throws a ProtocolError 404 if there is no such job. */
export async function findJob(
  { kv, databases, replicator }: FindJobParts,
  call: Call,
): Promise<JobEntry> {
  const id = parameter(call, "id");
  const asker = authorityOf(securitySubject(call.user));
  // A plus that the client failed to escape was decoded as a space.
  const unescaped = await replicator.find(id.replaceAll(" ", "+"), asker);
  const entry = unescaped ?? (await replicator.find(id, asker));
  if (entry !== undefined) return entry;
  const segments = id.split("/");
  const place = segments.indexOf(REPLICATOR_DATABASE);
  if (place >= 0 && place < segments.length - 1) {
    const name = segments.slice(0, place + 1).join("/");
    const { uuid } = await kv.read((tx) => databases.open(tx, name));
    const found = await replicator.findDocument(uuid, segments.slice(place + 1).join("/"));
    if (found !== undefined) return found;
  }
  const hint = "use DATABASE/DOCUMENT, or an id shown by /_tandem/jobs and `tandem jobs list`";
  throw noSuch("job", id, hint);
}
