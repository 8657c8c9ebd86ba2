/**
 * The checkpoint of a run that went on where the one before had parked: both sides have to have the log of that one, and get the log of
 * this run with that one's history behind it (decision 297). A Tandem does that in one request; elsewhere the log is read and written.
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
  /** When the databases were made that the run before parked between. */
  readonly startTimes: StartTimes;
  /** It parked where no checkpoint is, since there was nothing to copy. */
  readonly isBeginning: boolean;
  /** The run is so short that a server which acknowledges nothing that is not durable need not be asked for that. */
  readonly isShort: boolean;
}

/**
 * Writes `log`, whose history is the run's own entry, on both sides. Throws a ParkedPlaceLostError when one has no log that ends where the
 * entry begins, or is another database. Then the other may have been written: the next run finds what both have in common.
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
  /** When its database was made that the run before parked at. */
  readonly startTime: string;
  readonly isBeginning: boolean;
  readonly isShort: boolean;
}

/** Reads the log of an endpoint and writes `log` in its place; false as in `Endpoint.continueLog`. */
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

/** Whether the database is surely the one that was made then. */
async function isFrom(
  startTime: string,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<boolean> {
  return isSurelySame(startTime, (await endpoint.info(signal)).instanceStartTime);
}
