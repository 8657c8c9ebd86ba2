/**
 * Opens both sides at the start of a run: reads database information and replication logs.
 * Independent requests run concurrently, since a server might be distant:
 *
 * 1. database information and log under the current id, for both sides
 * 2. for the target: logs under older ids or, if the database is missing, its creation; also
 *    `prepareTarget`
 * 3. for the source: logs under older ids, if only the target has a log
 */
import { allTogether } from "../../base/index.ts";
import { type Endpoint, EndpointError, type EndpointInfo } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import type { ReplicationId } from "../request/replication-id.ts";
import { Checkpoints } from "./checkpoints.ts";
import type { OwnCheckpointStore } from "./own-checkpoint.ts";
import {
  type FoundLog,
  type FoundSide,
  noneIfReadOnly,
  readLog,
  readOlderLog,
} from "./stored-log.ts";

export interface OpenSidesParts {
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly replication: Pick<Replication, "createTarget" | "createTargetParameters">;
  readonly ids: Pick<ReplicationId, "baseId" | "olderBaseIds">;
  readonly ownCheckpoint: OwnCheckpointStore;
  /**
   * Records whether the job creates its target. Called with true before a missing target is
   * created, and with false if the target turns out to exist.
   */
  readonly noteTarget: (isCreatedHere: boolean) => Promise<void>;
  /** Called when the target exists, before anything is written to it. */
  readonly prepareTarget: (signal: AbortSignal) => Promise<void>;
  /**
   * Called if the target has no log under the current id. In this case, the run is probably a
   * first, complete copy.
   */
  readonly expectNoLog: () => Promise<void>;
}

export interface OpenSides {
  readonly checkpoints: Checkpoints;
  /** Whether the target had no documents when it was opened. */
  readonly isTargetEmpty: boolean;
}

interface AskedSide extends FoundSide {
  readonly info: EndpointInfo;
}

export async function openSides(parts: OpenSidesParts, signal: AbortSignal): Promise<OpenSides> {
  const { ids, ownCheckpoint } = parts;
  let asking: Promise<AskedSide>;
  const [asked, there] = await allTogether(signal, [
    (taskSignal) => {
      asking = askSource(parts.source, ids.baseId, taskSignal);
      return asking;
    },
    (taskSignal) =>
      askTarget(parts, taskSignal).catch(async (error: unknown) => {
        // Wait for the source first: if both sides fail, the source's error is always the one
        // reported.
        await asking;
        throw error;
      }),
  ]);
  if (there?.log === undefined) await parts.expectNoLog();
  const target = await settleTarget(parts, there, signal);
  const source = await withOlderLog(asked, target, ids, signal);
  const checkpoints = await Checkpoints.of(ids.baseId, { source, target }, ownCheckpoint);
  return { checkpoints, isTargetEmpty: target.info.isEmpty };
}

/** Requests the database information of an endpoint, and its log under the current id. */
export function askSide(
  endpoint: Endpoint,
  baseId: string,
  signal: AbortSignal,
): Promise<AskedSide> {
  return settled(endpoint, endpoint.info(signal), readLog(endpoint, baseId, signal));
}

/**
 * Like `askSide`, but for a source. If the account is not allowed to read the source's log, the
 * source counts as having no log.
 */
export function askSource(
  source: Endpoint,
  baseId: string,
  signal: AbortSignal,
): Promise<AskedSide> {
  const info = source.info(signal);
  return settled(source, info, readLog(source, baseId, signal).catch(noneIfReadOnly));
}

/** Combines the results of the two requests to an endpoint. */
async function settled(
  endpoint: Endpoint,
  infoAsked: Promise<EndpointInfo>,
  logAsked: Promise<FoundLog | undefined>,
): Promise<AskedSide> {
  const [info, log] = await Promise.allSettled([infoAsked, logAsked]);
  // If both requests fail, report the failure of the database information, which is more specific.
  if (info.status === "rejected") throw info.reason;
  if (log.status === "rejected") throw log.reason;
  return { endpoint, info: info.value, log: log.value };
}

/**
 * Requests the target's database information and log. Returns undefined if the target must be
 * created. This request comes before any attempt to create the target, because an account that
 * writes to an existing target need not have the permission to create databases.
 */
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

/**
 * Creates the target if it is missing. Returns the target with its log. If there is no log under
 * the current id, looks for a log under the older ids.
 */
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
  // For an empty target, older logs are not needed: starting from the beginning is correct, and
  // saves a request for each older id.
  const olderIds = there.log === undefined && !there.info.isEmpty ? ids.olderBaseIds : [];
  const [older] = await allTogether(signal, [
    (taskSignal) => readOlderLog(target, olderIds, taskSignal),
    prepareTarget,
  ]);
  return { ...there, log: there.log ?? older };
}

/** Returns the source. If only the target has a log, reads the source's log under the older ids. */
async function withOlderLog(
  source: AskedSide,
  target: AskedSide,
  ids: Pick<ReplicationId, "olderBaseIds">,
  signal: AbortSignal,
): Promise<AskedSide> {
  if (source.log !== undefined || target.log === undefined) return source;
  const log = await readOlderLog(source.endpoint, ids.olderBaseIds, signal).catch(noneIfReadOnly);
  return { ...source, log };
}

/** Whether the error means that a database does not exist. */
export function isMissing(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "db_not_found";
}
