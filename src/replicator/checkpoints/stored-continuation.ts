/**
 * Continues a replication log in a database of this store, in the caller's transaction (decision
 * 297). Used for local endpoints, and for other servers that write checkpoints here.
 */
import { assert, Utf8Text } from "../../base/index.ts";
import type { Database } from "../../databases/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { ContinuedOutcome, LogContinuation } from "../endpoints/local/access.ts";
import { continuedLog, parseReplicationLog, type ReplicationLog } from "./replication-log.ts";

/**
 * Maximum size of a replication log, which is parsed without yielding. Fifty runs in a cluster with
 * hundreds of shards take half as much.
 */
export const LOG_BYTES_MAX = 1024 * 1024;

/**
 * Appends the stored history to `log`, which has the entry of one run, and stores the result. With
 * `madeAt`, the instance start time of the intended database, writes a log even if none is stored.
 */
export async function continueStoredLog(
  tx: Transaction,
  database: Database,
  {
    name,
    log,
    madeAt,
  }: Pick<LogContinuation, "name" | "madeAt"> & { readonly log: ReplicationLog },
): Promise<ContinuedOutcome> {
  if (madeAt !== undefined && madeAt !== database.instanceStartTime) return { kind: "re-created" };
  const id = `_local/${name}`;
  const stored = await database.local.read(tx, id);
  if (stored === undefined && madeAt === undefined) return { kind: "missing" };
  if (stored !== undefined && stored.body.bytes.length > LOG_BYTES_MAX) return { kind: "too-long" };
  const next = stored === undefined ? log : continuedLog(stored.body.text, log);
  if (next === undefined) return { kind: "ends-elsewhere" };
  const body = Utf8Text.of(JSON.stringify(next));
  const outcome = await database.local.write(tx, { id, parent: stored?.revision, body });
  return outcome.kind === "written" ? outcome : { kind: "missing" };
}

/** Like `continueStoredLog`, for a log that this node has written as JSON. */
export function continueLog(
  tx: Transaction,
  database: Database,
  { text, ...continuation }: LogContinuation,
): Promise<ContinuedOutcome> {
  const log = parseReplicationLog(text);
  assert(log !== undefined, "A run must write replication logs");
  return continueStoredLog(tx, database, { ...continuation, log });
}
