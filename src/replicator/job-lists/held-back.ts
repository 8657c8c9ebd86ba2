/** Determines why a job is not copying, or not copying faster. */
import { type Jobs, type Labels, NO_LABELS } from "../../jobs/index.ts";
import type { ReadTransaction, Subspace } from "../../kv/index.ts";
import { AWAITING_SEC, NEVER_SEC } from "../jobs/decide.ts";
import { hasEnded, REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { groupOf } from "../jobs/replication-group.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import type { JobEntry } from "./job-views.ts";

/**
 * - paused: an operator has paused the job
 * - after: waits until other jobs have completed or caught up
 * - storage: the store's disk is full, so that no progress can be saved
 * - placement: no node that accepts jobs has the labels in `run_on`
 * - outage: waits for an unreachable server
 * - limiter: a server demands fewer requests (429)
 * - budget: an operator's limit for requests to a server is reached
 * - login: in backoff, and the job's account is not allowed to log in yet
 *   (`logins/gated-logins.ts`)
 * - backoff: pause after a failure
 * - schedule: the next run is not yet due
 * - share: due, but another group has used less of its share
 * - slot: due, but no node has a free slot
 */
export type HeldBackBy =
  | "paused"
  | "after"
  | "storage"
  | "placement"
  | "outage"
  | "limiter"
  | "budget"
  | "login"
  | "backoff"
  | "schedule"
  | "share"
  | "slot";

/** Facts that determine what holds a job back, in addition to the job's own data. */
export interface HeldBackFacts {
  readonly nowSec: number;
  /** Whether the job becomes due when an unreachable server recovers. */
  readonly awaitsServer: boolean;
  /** Whether another group is scheduled before the job's group. */
  readonly isOthersTurn: boolean;
  readonly isStoreFull: boolean;
}

/** Returns why a job is held back; undefined if nothing holds it back, or it has ended. */
export function heldBackBy(
  {
    state,
    data,
    scheduledAtSec,
    isUnplaced,
  }: Pick<JobEntry, "state" | "data" | "scheduledAtSec" | "isUnplaced">,
  { nowSec, awaitsServer, isOthersTurn, isStoreFull }: HeldBackFacts,
): HeldBackBy | undefined {
  const isRunning = state === "running";
  // Check the placement first, because a parked job without a suitable node is not watched.
  if (isUnplaced) return "placement";
  if (data.state === "parked" || (!isRunning && hasEnded(state))) return undefined;
  if (!isRunning && scheduledAtSec >= NEVER_SEC) return "paused";
  if (!isRunning && scheduledAtSec === AWAITING_SEC) return "after";
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
    this.#keys = replicatorKeys(subspace);
  }

  /**
   * Returns why each job is held back, in the order of `entries`. Uses snapshot reads, which cause
   * no conflicts.
   */
  async of(
    tx: ReadTransaction,
    entries: readonly JobEntry[],
    { nowSec, isStoreFull }: Pick<HeldBackFacts, "nowSec" | "isStoreFull">,
  ): Promise<readonly (HeldBackBy | undefined)[]> {
    const due = entries.filter((entry) => waits(entry) && entry.scheduledAtSec <= nowSec);
    const others = await this.#waitingForOthers(tx, due, nowSec);
    return Promise.all(
      entries.map(async (entry) =>
        heldBackBy(entry, {
          nowSec,
          awaitsServer: waits(entry) && (await this.#awaitsServer(tx, entry)),
          isOthersTurn: others.has(entry),
          isStoreFull,
        }),
      ),
    );
  }

  /**
   * Returns the due jobs whose group has to wait for another group. Takes the jobs' labels into
   * account.
   */
  async #waitingForOthers(
    tx: ReadTransaction,
    due: readonly JobEntry[],
    nowSec: number,
  ): Promise<ReadonlySet<JobEntry>> {
    const found = new Set<JobEntry>();
    const sets = new Map<string, { readonly labels: Labels; readonly entries: JobEntry[] }>();
    for (const entry of due) {
      const labels = entry.data.replication?.runOn ?? NO_LABELS;
      const set = sets.get(labels.join()) ?? { labels, entries: [] };
      sets.set(labels.join(), set);
      set.entries.push(entry);
    }
    for (const { labels, entries } of sets.values()) {
      const groups = new Set(entries.map(({ data }) => groupOf(data)));
      const type = REPLICATION_JOB_TYPE;
      const others = await this.#jobs.groups.notNext(tx, type, groups, nowSec, labels);
      for (const entry of entries) if (others.has(groupOf(entry.data))) found.add(entry);
    }
    return found;
  }

  async #awaitsServer(
    tx: ReadTransaction,
    { jobId, data: { failing, replication } }: JobEntry,
  ): Promise<boolean> {
    if (failing === undefined) return false;
    const origins = [replication?.source, replication?.target].flatMap(originOf);
    const keys = origins.map((origin) => this.#keys.outageMember.key({ origin, jobId }));
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
