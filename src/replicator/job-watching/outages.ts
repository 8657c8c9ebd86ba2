/**
 * Unreachable servers, and the jobs that crashed because of them. One node at a time probes a
 * server on behalf of all jobs that crashed because of it. When the server recovers, these jobs
 * become due over a short time, instead of waiting out their pauses.
 */
import { assert, currentSec, forEachConcurrent, type Runtime } from "../../base/index.ts";
import type { Fetch } from "../../http-client/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import {
  type Key,
  type KeyValueStore,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { hasEnded, REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import { stepFor } from "../jobs/job-input.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";

/** Interval between probes of a server, cluster-wide. */
const PROBE_INTERVAL_MS = 5000;
/** Timeout of a probe. */
const PROBE_TIMEOUT_MS = 5000;
const PROBES_MAX = 10;
/** Number of jobs scheduled or checked per transaction. */
const MEMBERS_MAX = 100;
/** Rate at which jobs become due after a server has recovered. */
const RETURNS_PER_SEC = 20;
/** Maximum time until all jobs are due after a server has recovered. */
const RETURN_SEC_MAX = 30;
const OUTAGES_MAX = 1000;

export interface OutagesParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly controls: JobControls;
  /** Sends probes, without retries. */
  readonly fetch: Fetch;
  readonly subspace: Subspace;
}

export class Outages {
  readonly name = "replicator.outages";
  readonly #parts: OutagesParts;
  readonly #keys: ReplicatorKeys;
  /** Position up to which this node has checked the jobs of each outage. */
  readonly #lookedUntil = new Map<string, Key>();

  constructor(parts: OutagesParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /**
   * Records that a job could not reach `origin`. Must be called in the transaction that ends the
   * run.
   */
  async join(tx: Transaction, origin: string, jobId: string): Promise<void> {
    const key = this.#keys.outage.key({ origin });
    tx.set(this.#keys.outageMember.key({ origin, jobId }), encodeMember());
    if ((await tx.get(key)) !== undefined) return;
    const nowMs = this.#parts.runtime.clock.nowMs();
    tx.set(key, encodeOutage({ probedAtMs: nowMs, isConfirmed: false }));
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    while (!signal.aborted) {
      await clock.sleep(PROBE_INTERVAL_MS, signal).catch(() => {});
      if (signal.aborted) return;
      await forEachConcurrent(await this.#origins(), PROBES_MAX, (origin) =>
        this.#probe(origin, signal),
      );
    }
  }

  async #origins(): Promise<readonly string[]> {
    const known = await this.#parts.kv.read((tx) => knownOutages(tx, this.#keys));
    return known.map(({ origin }) => origin);
  }

  /** Probes a server, unless another node has just done so. */
  async #probe(origin: string, signal: AbortSignal): Promise<void> {
    const { runtime, kv } = this.#parts;
    const key = this.#keys.outage.key({ origin });
    const nowMs = runtime.clock.nowMs();
    const outage = await kv.transact(async (tx) => {
      const value = await tx.get(key);
      if (value === undefined) return undefined;
      const current = decodeOutage(value);
      const sinceMs = nowMs - current.probedAtMs;
      // A time in the future does not count: it was set by a clock that was ahead.
      if (sinceMs >= 0 && sinceMs < PROBE_INTERVAL_MS / 2) return undefined;
      tx.set(key, encodeOutage({ ...current, probedAtMs: nowMs }));
      return current;
    });
    if (outage === undefined) {
      this.#lookedUntil.delete(origin);
      return;
    }
    if (await this.#answers(origin, signal)) {
      await this.#end(origin, outage.isConfirmed);
      this.#lookedUntil.delete(origin);
      runtime.trace.event("replication.outage-over", { origin });
      return;
    }
    if (!outage.isConfirmed) {
      await kv.transact(async (tx) => {
        if ((await tx.get(key)) === undefined) return;
        tx.set(key, encodeOutage({ probedAtMs: nowMs, isConfirmed: true }));
      });
      runtime.trace.event("replication.outage", { origin });
    }
    await this.#forgetMembers(origin);
  }

  /**
   * Checks the next page of jobs, and removes those that no longer wait for the server. Removes the
   * outage if no job is left.
   */
  async #forgetMembers(origin: string): Promise<void> {
    const all = this.#keys.outageMember.range({ origin });
    const after = this.#lookedUntil.get(origin);
    const range = after === undefined ? all : { ...all, begin: keyAfter(after) };
    const last = await this.#parts.kv.transact(async (tx) => {
      const page = await tx.getRangePage(range, { limit: MEMBERS_MAX });
      // Read concurrently, because each read from a remote store is a round trip.
      const areWaiting = await Promise.all(
        page.entries.map(({ key }) =>
          this.#isWaiting(tx, this.#keys.outageMember.unpack(key).jobId),
        ),
      );
      for (const [index, { key }] of page.entries.entries()) if (!areWaiting[index]) tx.clear(key);
      const { entries: left } = await tx.getRangePage(all, { limit: 1 });
      if (left.length === 0) tx.clear(this.#keys.outage.key({ origin }));
      return page.stoppedBy === "exhausted" ? undefined : page.entries.at(-1)?.key;
    });
    if (last === undefined) this.#lookedUntil.delete(origin);
    else this.#lookedUntil.set(origin, last);
  }

  /**
   * Whether the job is still failing, and therefore waits. A failing job that is being retried
   * counts as failing.
   */
  async #isWaiting(tx: ReadTransaction, jobId: string): Promise<boolean> {
    const job = await this.#parts.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
    if (job === undefined) return false;
    // Leave jobs stored by a newer version to newer nodes.
    if (!isReadable(job)) return true;
    const { state, failing } = decodeJob(job);
    return failing !== undefined && !hasEnded(state);
  }

  /** Whether the server itself responds; errors of a gateway do not count. */
  async #answers(origin: string, signal: AbortSignal): Promise<boolean> {
    try {
      const response = await this.#parts.fetch({
        method: "GET",
        url: `${origin}/`,
        inactivityTimeoutMs: PROBE_TIMEOUT_MS,
        // The certificate need not be verified, because a probe sends nothing confidential.
        connection: { tls: { verify: false } },
        signal,
      });
      response.discard();
      return response.status < 502;
    } catch {
      return false;
    }
  }

  /**
   * Removes the outage. If a probe had confirmed it (`makesDue`), its jobs become due; otherwise,
   * they keep their pauses.
   */
  async #end(origin: string, makesDue: boolean): Promise<void> {
    const { kv } = this.#parts;
    const memberCount = makesDue ? await this.#memberCount(origin) : 0;
    const spreadSec = Math.min(RETURN_SEC_MAX, Math.ceil(memberCount / RETURNS_PER_SEC));
    for (let left = MEMBERS_MAX; left === MEMBERS_MAX; ) {
      left = await kv.transact(async (tx) => {
        const range = this.#keys.outageMember.range({ origin });
        const page = await tx.getRangePage(range, { limit: MEMBERS_MAX });
        for (const { key } of page.entries) {
          tx.clear(key);
          if (makesDue)
            await this.#makeDue(tx, this.#keys.outageMember.unpack(key).jobId, spreadSec);
        }
        if (page.entries.length < MEMBERS_MAX) tx.clear(this.#keys.outage.key({ origin }));
        return page.entries.length;
      });
    }
  }

  async #makeDue(tx: Transaction, jobId: string, spreadSec: number): Promise<void> {
    const { jobs, controls, runtime } = this.#parts;
    const name = { type: REPLICATION_JOB_TYPE, id: jobId };
    const job = await jobs.get(tx, name);
    if (job === undefined) return;
    if ((await stepFor(tx, controls, job, "reachable")) !== "due-soon") return;
    const nowSec = currentSec(runtime.clock);
    const dueAtSec = nowSec + runtime.random.integer(spreadSec + 1);
    if (job.scheduledAtSec > dueAtSec) await jobs.resubmit(tx, name, dueAtSec);
  }

  async #memberCount(origin: string): Promise<number> {
    let range = this.#keys.outageMember.range({ origin });
    let count = 0;
    for (;;) {
      const page = await this.#parts.kv.read((tx) => tx.getRangePage(range));
      count += page.entries.length;
      const last = page.entries.at(-1);
      if (page.stoppedBy === "exhausted" || last === undefined) return count;
      range = { ...range, begin: keyAfter(last.key) };
    }
  }
}

/** A current outage of a server. */
export interface KnownOutage extends Outage {
  readonly origin: string;
}

export async function knownOutages(
  tx: ReadTransaction,
  keys: ReplicatorKeys,
): Promise<readonly KnownOutage[]> {
  const page = await tx.getRangePage(keys.outage.range(), { limit: OUTAGES_MAX });
  return page.entries.map(({ key, value }) => ({
    ...decodeOutage(value),
    origin: keys.outage.unpack(key).origin,
  }));
}

interface Outage {
  readonly probedAtMs: number;
  /** Whether a probe has confirmed the outage by failing. */
  readonly isConfirmed: boolean;
}

/** Format version, stored as the first element. */
const FORMAT = 1;

function encodeOutage({ probedAtMs, isConfirmed }: Outage): Uint8Array {
  return packTuple([FORMAT, Math.floor(probedAtMs), isConfirmed ? 1 : 0]);
}

function decodeOutage(value: Uint8Array): Outage {
  const [format, probedAtMs, isConfirmed] = unpackTuple(value);
  assert(
    format === FORMAT && typeof probedAtMs === "number",
    "An outage must have a supported format version",
  );
  return { probedAtMs, isConfirmed: isConfirmed === 1 };
}

function encodeMember(): Uint8Array {
  return packTuple([FORMAT]);
}
