/** What holds a job back now: why it does not copy, or not faster. */
import type { Jobs } from "../../jobs/index.ts";
import type { ReadTransaction, Subspace } from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { NEVER_SEC } from "./decide.ts";
import { hasEnded, REPLICATION_JOB_TYPE } from "./job-data.ts";
import type { JobEntry } from "./job-views.ts";
import { groupOf } from "./replication-group.ts";

/**
 *   paused    an operator paused it
 *   storage   the disk of the store is full, so that nothing it does can be stored
 *   outage    it waits for a server that could not be reached
 *   limiter   a server wants fewer requests (429)
 *   budget    an operator's limit for a server
 *   backoff   the pause after a failure
 *   schedule  its next run is not yet due
 *   share     it is due, and a group that has used less of its shares is next
 *   slot      it is due, and no node has a free slot
 */
export type HeldBackBy =
  | "paused"
  | "storage"
  | "outage"
  | "limiter"
  | "budget"
  | "backoff"
  | "schedule"
  | "share"
  | "slot";

/** What the store knows beside the job. */
export interface HeldBackFacts {
  readonly nowSec: number;
  /** Whether the job is due at once when a server answers that could not be reached. */
  readonly awaitsServer: boolean;
  /** Whether another group is next. */
  readonly isOthersTurn: boolean;
  readonly isStoreFull: boolean;
}

/** Undefined: nothing, or the job has ended. */
export function heldBackBy(
  { state, data, scheduledAtSec }: Pick<JobEntry, "state" | "data" | "scheduledAtSec">,
  { nowSec, awaitsServer, isOthersTurn, isStoreFull }: HeldBackFacts,
): HeldBackBy | undefined {
  const isRunning = state === "running";
  if (data.state === "parked" || (!isRunning && hasEnded(state))) return undefined;
  if (!isRunning && scheduledAtSec >= NEVER_SEC) return "paused";
  if (isStoreFull) return "storage";
  if (isRunning) return data.waitsFor;
  if (scheduledAtSec > nowSec) {
    if (awaitsServer) return "outage";
    if (data.failing === undefined && data.replication?.schedule !== undefined) return "schedule";
    return data.failing?.class === "rate_limited" ? "limiter" : "backoff";
  }
  return isOthersTurn ? "share" : "slot";
}

export class HeldBack {
  readonly #jobs: Jobs;
  readonly #keys: ReplicatorKeys;

  constructor(jobs: Jobs, subspace: Subspace) {
    this.#jobs = jobs;
    this.#keys = new ReplicatorKeys(subspace);
  }

  /** Of each of these jobs, in their order. Snapshots: nothing conflicts with it. */
  async of(
    tx: ReadTransaction,
    entries: readonly JobEntry[],
    { nowSec, isStoreFull }: Pick<HeldBackFacts, "nowSec" | "isStoreFull">,
  ): Promise<readonly (HeldBackBy | undefined)[]> {
    const due = entries.filter((entry) => waits(entry) && entry.scheduledAtSec <= nowSec);
    const groups = new Set(due.map(({ data }) => groupOf(data)));
    const others = await this.#jobs.groups.notNext(tx, REPLICATION_JOB_TYPE, groups, nowSec);
    return Promise.all(
      entries.map(async (entry) =>
        heldBackBy(entry, {
          nowSec,
          awaitsServer: waits(entry) && (await this.#awaitsServer(tx, entry)),
          isOthersTurn: others.has(groupOf(entry.data)),
          isStoreFull,
        }),
      ),
    );
  }

  async #awaitsServer(
    tx: ReadTransaction,
    { jobId, data: { failing, replication } }: JobEntry,
  ): Promise<boolean> {
    if (failing === undefined) return false;
    const origins = [replication?.source, replication?.target].flatMap(originOf);
    const keys = origins.map((origin) => this.#keys.outageMember(origin, jobId));
    const members = await tx.snapshot.getMany(keys);
    return members.some((member) => member !== undefined);
  }
}

function waits({ state }: JobEntry): boolean {
  return state !== "running" && !hasEnded(state);
}

function originOf(address: EndpointAddress | undefined): readonly string[] {
  if (address?.kind !== "http") return [];
  const url = validEndpointUrl(address);
  return url === undefined ? [] : [url.origin];
}
