/**
 * Continues a replication log in a database of this store, in the caller's transaction (decision
 * 297). Used for local endpoints, and for other servers that write checkpoints here.
 */
import { Utf8Text } from "../../base/index.ts";
import type { Database } from "../../databases/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { continuedLog, type ReplicationLog } from "./replication-log.ts";

/**
 * Maximum size of a replication log, which is parsed without yielding. Fifty runs in a cluster with
 * hundreds of shards take half as much.
 */
export const LOG_BYTES_MAX = 1024 * 1024;

/**
 * - written: the log has a new revision
 * - missing: there is no log to continue
 * - too-long: the stored log has more than `LOG_BYTES_MAX` bytes
 * - ends-elsewhere: the stored log does not end where `log` begins
 * - re-created: the database's instance start time differs
 */
export type ContinuedOutcome =
  | { readonly kind: "written"; readonly revision: string }
  | { readonly kind: "missing" | "too-long" | "ends-elsewhere" | "re-created" };

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
  }: {
    /** Id of the `_local` document without its prefix. */
    readonly name: string;
    readonly log: ReplicationLog;
    readonly madeAt?: string | undefined;
  },
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
