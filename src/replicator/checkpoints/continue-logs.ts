/**
 * Checkpoint of a run that resumed a parked job. Each side must still have the last log of the
 * parked job. The new log consists of this run's entry, followed by the history of the stored log
 * (decision 297). A Tandem server prepends the entry to its stored log in one request. On other
 * servers, the stored log is read first.
 */
import { type JsonText, runTogether } from "../../base/index.ts";
import type { Endpoint, StartTimes } from "../endpoints/endpoint.ts";
import { ParkedPlaceLostError } from "./parked-place.ts";
import { continuedLog, type ReplicationLog } from "./replication-log.ts";
import { isSurelySame, mayBeSame, readLog, writeLog } from "./stored-log.ts";

interface ContinueParts {
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly ids: { readonly baseId: string };
}

interface ContinueOptions {
  /** Creation times of the databases when the job was parked. */
  readonly startTimes: StartTimes;
  /**
   * Whether the job was parked at the beginning of the feed, without a checkpoint, because there
   * was nothing to copy.
   */
  readonly isBeginning: boolean;
  /** Whether servers whose acknowledged writes are durable get no commit request. */
  readonly isShort: boolean;
}

/**
 * Writes `log` to both sides. The history of `log` contains only this run's entry; each side's
 * stored history is appended to it. Throws a ParkedPlaceLostError if the log stored on a side does
 * not end where this run's entry begins, or if a side's database was replaced. If only the other
 * side's log was written, the next run finds the common ancestry of both.
 */
export async function continueLogs(
  { source, target, ids }: ContinueParts,
  log: ReplicationLog,
  { startTimes, ...options }: ContinueOptions,
  signal: AbortSignal,
): Promise<void> {
  const text = JSON.stringify(log);
  const on =
    (endpoint: Endpoint, startTime: string) =>
    async (taskSignal: AbortSignal): Promise<void> => {
      const madeAt = options.isBeginning ? { madeAt: startTime } : {};
      const written =
        (await endpoint.continueLog(ids.baseId, text, taskSignal, madeAt)) ??
        (await rewriteLog({ endpoint, startTime, ...options }, ids.baseId, log, taskSignal));
      if (written === false) throw new ParkedPlaceLostError();
    };
  await runTogether(signal, [on(source, startTimes.source), on(target, startTimes.target)]);
}

interface Rewriting {
  readonly endpoint: Endpoint;
  /** Creation time of the database when the job was parked. */
  readonly startTime: string;
  readonly isBeginning: boolean;
  readonly isShort: boolean;
}

/**
 * Reads an endpoint's log and replaces it, for servers without `continueLog`. Returns false if the
 * stored log cannot be continued, or if the database was replaced.
 */
async function rewriteLog(
  { endpoint, startTime, isBeginning, isShort }: Rewriting,
  id: string,
  log: ReplicationLog,
  signal: AbortSignal,
): Promise<boolean> {
  const stored = await readLog(endpoint, id, signal);
  if (stored === undefined && !(isBeginning && (await isFrom(startTime, endpoint, signal)))) {
    return false;
  }
  const next = stored === undefined ? log : continuedLog(stored.body, log);
  if (next === undefined) return false;
  const isDurable = isShort && endpoint.writesDurably;
  if (!isDurable && !mayBeSame(startTime, await endpoint.commit(signal))) return false;
  const body: JsonText = JSON.stringify(next);
  const written = { id, body, parent: stored?.revision, madeAt: startTime };
  return (await writeLog(endpoint, written, signal)) !== undefined;
}

/** Whether the database is known to have this creation time. */
async function isFrom(
  startTime: string,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<boolean> {
  return isSurelySame(startTime, (await endpoint.info(signal)).instanceStartTime);
}
