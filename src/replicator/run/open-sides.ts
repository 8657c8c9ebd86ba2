/**
 * The start of a run: what both databases are, and what they remember of the replication. What does not need the answer to something
 * else is asked at the same time, since a server may be far away:
 *
 *   1. both sides what they are, and for their logs under the id of today
 *   2. a target that lacks the log for those under older ids, or one that is missing to be made; and for security objects
 *   3. the source for logs under older ids, where it lacks that of today and the target has one
 */
import { allTogether } from "../../base/index.ts";
import { type Endpoint, EndpointError, type EndpointInfo } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import type { ReplicationId } from "../request/replication-id.ts";
import { Checkpoints } from "./checkpoints.ts";
import type { OwnCheckpointStore } from "./own-checkpoint.ts";
import { type FoundSide, readLog, readOlderLog } from "./stored-log.ts";

export interface OpenSidesParts {
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly replication: Pick<Replication, "createTarget" | "createTargetParameters">;
  readonly ids: Pick<ReplicationId, "baseId" | "olderBaseIds">;
  readonly ownCheckpoint: OwnCheckpointStore;
  /** Called with true before a missing target is created, and with false if it existed after all. */
  readonly noteTarget: (isCreatedHere: boolean) => Promise<void>;
  /** Called when the target exists, before anything is written to it. */
  readonly prepareTarget: (signal: AbortSignal) => Promise<void>;
  /** Called when the target has no log under the id of today: it likely has none at all, and all is to be copied. */
  readonly expectNoLog: () => Promise<void>;
}

export interface OpenSides {
  readonly checkpoints: Checkpoints;
  /** Whether the target had no document when it was asked. */
  readonly isTargetEmpty: boolean;
}

interface AskedSide extends FoundSide {
  readonly info: EndpointInfo;
}

export async function openSides(parts: OpenSidesParts, signal: AbortSignal): Promise<OpenSides> {
  const { ids, ownCheckpoint } = parts;
  let asking: Promise<AskedSide>;
  const [asked, there, ownCopy] = await allTogether(signal, [
    (taskSignal) => {
      asking = askSide(parts.source, ids.baseId, taskSignal);
      return asking;
    },
    (taskSignal) =>
      askTarget(parts, taskSignal).catch(async (error: unknown) => {
        // Of two failures that of the source is told, whichever comes first: a job that fails says the same at each try.
        await asking;
        throw error;
      }),
    () => ownCheckpoint.read(),
  ]);
  if (there?.log === undefined) await parts.expectNoLog();
  const target = await settleTarget(parts, there, signal);
  const source = await withOlderLog(asked, target, ids.olderBaseIds, signal);
  const checkpoints = Checkpoints.of(ids.baseId, { source, target }, ownCopy, ownCheckpoint);
  return { checkpoints, isTargetEmpty: target.info.isEmpty };
}

/** Asks a database what it is, and for its log under the id of today. */
export async function askSide(
  endpoint: Endpoint,
  baseId: string,
  signal: AbortSignal,
): Promise<AskedSide> {
  const [info, log] = await Promise.allSettled([
    endpoint.info(signal),
    readLog(endpoint, baseId, signal),
  ]);
  // What is wrong with a database, its own question says best.
  if (info.status === "rejected") throw info.reason;
  if (log.status === "rejected") throw log.reason;
  return { endpoint, info: info.value, log: log.value };
}

/** Undefined: the target is to be made. One that exists need not be, so the account need not have the right to. */
async function askTarget(
  { target, replication, ids }: OpenSidesParts,
  signal: AbortSignal,
): Promise<AskedSide | undefined> {
  try {
    return await askSide(target, ids.baseId, signal);
  } catch (error) {
    if (!isMissing(error) || !replication.createTarget) throw error;
    return undefined;
  }
}

/** The target, made if it was not there, and with its log under an older id if it has none of today. */
async function settleTarget(
  { target, replication, ids, noteTarget, prepareTarget }: OpenSidesParts,
  there: AskedSide | undefined,
  signal: AbortSignal,
): Promise<AskedSide> {
  if (there === undefined) {
    await noteTarget(true);
    const isCreated = await target.create(replication.createTargetParameters, signal);
    if (!isCreated) await noteTarget(false);
    const [info] = await allTogether(signal, [
      (taskSignal) => target.info(taskSignal),
      prepareTarget,
    ]);
    return { endpoint: target, info, log: undefined };
  }
  // To begin at the beginning is right where there is no document, and one request instead of one for each older id.
  const olderIds = there.log === undefined && !there.info.isEmpty ? ids.olderBaseIds : [];
  const [older] = await allTogether(signal, [
    (taskSignal) => readOlderLog(target, olderIds, taskSignal),
    prepareTarget,
  ]);
  return { ...there, log: there.log ?? older };
}

/** The source, with its log under an older id if it has none of today. Without a log at the target nothing is in common. */
async function withOlderLog(
  source: AskedSide,
  target: AskedSide,
  olderIds: readonly string[],
  signal: AbortSignal,
): Promise<AskedSide> {
  if (source.log !== undefined || target.log === undefined) return source;
  return { ...source, log: await readOlderLog(source.endpoint, olderIds, signal) };
}

/** Whether a database is not there. */
export function isMissing(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "db_not_found";
}
