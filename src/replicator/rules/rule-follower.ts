/**
 * Follows a rule while this node holds the rule's job: creates a job for each matching database of
 * the source, and ends jobs that are no longer wanted.
 *
 * To miss no database, the follower records the end of the server's feed of updates, lists all
 * databases, and then follows the feed. Feeds can lose events, so the listing is repeated. Without
 * a feed, the follower uses only listings. Jobs are changed in pages. The transaction of each page
 * verifies that the rule's job is still held. Each database with a job has a row with the rule's
 * generation. After a change of the rule, rows of older generations remain until their jobs are
 * updated, so that any node can resume the work.
 */

import { append, chunksOf, currentSec, type Runtime, runTogether } from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import type { HeldJob, Job } from "../../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import { type AddJobParts, addJob } from "../job-changes/add-job.ts";
import { amendJob } from "../job-changes/amend-job.ts";
import { type RemoveJobParts, removeJob } from "../job-changes/remove-job.ts";
import { replaceJob } from "../job-changes/replace-job.ts";
import { phaseOf } from "../jobs/decide.ts";
import { REPLICATION_JOB_TYPE, restarted } from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, isReadable } from "../jobs/job-data-record.ts";
import { isAmendment, stepFor, stepWhenAskedAgain } from "../jobs/job-input.ts";
import { ruleJobId } from "../jobs/rule-jobs.ts";
import type { SweepPace } from "../parking/sweep-pace.ts";
import type { ListedServer } from "../parking/watched-server.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { LOCAL_SOURCE } from "../request/watched-place.ts";
import { securityDigest } from "../run/same-security.ts";
import { matchRule, type Rule, type RuleMatch, ruleReplication } from "./rule.ts";
import { type ListedNames, listNames, rowsOfRule } from "./rule-listing.ts";
import { ListingCount } from "./rule-progress.ts";
import type { RuleDatabase, RuleIdentity, RuleStore } from "./rule-store.ts";

/** Number of jobs created, changed or removed per transaction. */
const CHANGED_MAX = 20;
/** Number of rows read per transaction. */
const ROWS_MAX = 500;
/** Delay for collecting events, to send one request for many changes of a busy server. */
const GATHER_MS = 100;
/**
 * Pause between two listings of the source's databases: with a feed of database updates (`feed`),
 * and without (`lists`). Without a feed, a new database gets its job within ten seconds.
 */
const LIST_PAUSE_MS = { feed: 60_000, lists: 5_000 };
/** Minimum duration of one pass over all security objects. */
const SECURITY_ROUND_MS_MIN = 30_000;
/** Cost of a local read for the rate limit. A request to a server costs 1. */
const LOCAL_COST = 0.1;

export interface RuleFollowerParts extends AddJobParts, RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly store: RuleStore;
  readonly pace: SweepPace;
  /** Settings for parsing rules. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "options" | "protocols">;
}

/** A rule as loaded by the node that follows it. */
export interface FollowedRule extends RuleIdentity {
  readonly name: string;
  readonly rule: Rule;
  readonly owner: Authority;
}

/** Result of listing the source's databases. */
export interface Listing {
  readonly count: ListingCount;
  readonly followedBy: "feed" | "lists";
}

export class RuleFollower {
  readonly #parts: RuleFollowerParts;
  readonly #held: HeldJob;
  readonly #followed: FollowedRule;
  readonly #server: ListedServer;
  readonly #onListed: (listing: Listing) => Promise<void>;

  constructor(
    parts: RuleFollowerParts,
    held: HeldJob,
    followed: FollowedRule,
    server: ListedServer,
    onListed: (listing: Listing) => Promise<void>,
  ) {
    this.#parts = parts;
    this.#held = held;
    this.#followed = followed;
    this.#server = server;
    this.#onListed = onListed;
  }

  /**
   * Follows the rule until the signal aborts. Rejects if the source does not respond, or the job is
   * lost.
   */
  async follow(signal: AbortSignal): Promise<void> {
    const last = await this.#server.lastUpdate(signal);
    const followedBy = last === undefined ? "lists" : "feed";
    await runTogether(signal, [
      (taskSignal) => this.#listAgainAndAgain(followedBy, taskSignal),
      ...(last === undefined ? [] : [(taskSignal: AbortSignal) => this.#hear(last, taskSignal)]),
      (taskSignal) => this.#followSecurity(taskSignal),
    ]);
  }

  async #listAgainAndAgain(followedBy: Listing["followedBy"], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const count = await this.#list(signal);
      await this.#onListed({ count, followedBy });
      await this.#parts.runtime.clock.sleep(LIST_PAUSE_MS[followedBy], signal);
    }
  }

  /** Follows the feed of updates from `since`. */
  async #hear(since: SourceSequence, signal: AbortSignal): Promise<void> {
    let from = since;
    while (!signal.aborted) {
      const { names, deleted, last } = await this.#server.updates(from, signal);
      const there = [...new Set(names)].filter((name) => !deleted.has(name));
      await this.#makeJobs(await this.#lackingAmong(there.sort()), signal);
      await this.#endJobsOfGone([...deleted].sort(), signal);
      from = last;
      await this.#parts.runtime.clock.sleep(GATHER_MS, signal);
    }
  }

  /** Checks all databases of the source, and the rows of all databases with jobs. */
  async #list(signal: AbortSignal): Promise<ListingCount> {
    const count = new ListingCount();
    for await (const page of listNames(this.#server, () => this.#turn(1, signal), signal)) {
      for (const name of page.names) {
        const matched = matchRule(this.#followed.rule, name);
        if (matched.kind === "match") count.matched(name, faultOf(matched));
      }
      await this.#makeJobs(await this.#lackingIn(page), signal);
      await this.#endOthers(page, signal);
    }
    return count;
  }

  /** Returns the listed names without a row of the rule's generation. Reads all rows in pages. */
  async #lackingIn(listed: ListedNames): Promise<readonly string[]> {
    const { kv, store } = this.#parts;
    const lacking = new Set(listed.names);
    for await (const rows of rowsOfRule(kv, store, this.#followed, listed)) {
      for (const { database, generation } of rows) {
        if (generation === this.#followed.generation) lacking.delete(database);
      }
    }
    return [...lacking];
  }

  /** Returns the matching names without a row of the rule's generation. Reads a row per name. */
  async #lackingAmong(names: readonly string[]): Promise<readonly string[]> {
    const { kv, store } = this.#parts;
    const lacking: string[] = [];
    const matching = names.filter((name) => this.#targetUrl(name) !== undefined);
    for (const page of chunksOf(matching, ROWS_MAX)) {
      const rows = await kv.read((tx) => store.databasesNamed(tx.snapshot, this.#followed, page));
      const isCurrent = (index: number) => rows[index]?.generation === this.#followed.generation;
      append(
        lacking,
        page.filter((_, index) => !isCurrent(index)),
      );
    }
    return lacking;
  }

  /**
   * Creates jobs for matching databases that have no job, and updates jobs of an earlier
   * generation.
   */
  #makeJobs(names: readonly string[], signal: AbortSignal): Promise<void> {
    const matching = names.filter((name) => this.#targetUrl(name) !== undefined);
    return this.#inPages(matching, signal, (tx, name) => this.#makeJob(tx, name));
  }

  async #makeJob(tx: Transaction, database: string): Promise<void> {
    const { jobs, store, controls, config } = this.#parts;
    const { name, uuid, generation, rule, owner } = this.#followed;
    const targetUrl = this.#targetUrl(database);
    if (targetUrl === undefined) return;
    const [row] = await store.databasesNamed(tx, this.#followed, [database]);
    if (row?.generation === generation) return;
    const replication = ruleReplication(rule, database, targetUrl, config);
    const id = ruleJobId(uuid, database);
    const existing = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (existing !== undefined) {
      const asked = { replication, ...owner };
      const isSame =
        isAmendment(existing, asked) ||
        (await stepWhenAskedAgain(tx, controls, existing, asked)) === "nothing";
      if (isSame) {
        await amendJob(this.#parts, tx, existing, replication);
        const securityDigest = row?.securityDigest;
        store.setDatabase(tx, this.#followed, { database, generation, securityDigest });
        return;
      }
    }
    store.setDatabase(tx, this.#followed, { database, generation, securityDigest: undefined });
    const origin = { replication, refusal: undefined, document: undefined, rule: name, ...owner };
    if (existing === undefined) await addJob(this.#parts, tx, id, origin);
    else await replaceJob(this.#parts, tx, existing, origin);
  }

  /**
   * Checks the rows within the range of the listed names. Ends jobs of databases that no longer
   * match and, with `"delete": "stop"`, of databases that are not listed. Updates the other jobs to
   * the current rule.
   */
  async #endOthers(listed: ListedNames, signal: AbortSignal): Promise<void> {
    const { kv, store } = this.#parts;
    const { rule, generation } = this.#followed;
    const there = new Set(listed.names);
    for await (const rows of rowsOfRule(kv, store, this.#followed, listed)) {
      const others = rows.filter((row) => this.#targetUrl(row.database) === undefined);
      await this.#endJobs(namesOf(others), signal);
      const gone = rows.filter((row) => !others.includes(row) && !there.has(row.database));
      if (rule.whenDeleted === "stop") await this.#endJobsOfGone(namesOf(gone), signal);
      else {
        const old = gone.filter((row) => row.generation !== generation);
        await this.#makeJobs(namesOf(old), signal);
      }
    }
  }

  /** Ends jobs of databases missing from the source, if the rule has `"delete": "stop"`. */
  async #endJobsOfGone(names: readonly string[], signal: AbortSignal): Promise<void> {
    const { kv, store } = this.#parts;
    if (names.length === 0 || this.#followed.rule.whenDeleted !== "stop") return;
    const rows = await kv.read((tx) => store.databasesNamed(tx.snapshot, this.#followed, names));
    const known = names.filter((_, index) => rows[index] !== undefined);
    for (const page of chunksOf(known, CHANGED_MAX)) {
      await this.#turn(this.#server.requestCount(page.length), signal);
      const places = await this.#server.sequences(page, signal);
      const missing = page.filter((name) => places.get(name) === "missing");
      await this.#endJobs(missing, signal);
    }
  }

  #endJobs(names: readonly string[], signal: AbortSignal): Promise<void> {
    const { jobs, store } = this.#parts;
    return this.#inPages(names, signal, async (tx, database) => {
      store.removeDatabase(tx, this.#followed, database);
      const id = ruleJobId(this.#followed.uuid, database);
      const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
      if (job !== undefined) await removeJob(this.#parts, tx, job);
    });
  }

  /**
   * Polls the security objects of all databases with jobs, since feeds do not include them. If an
   * object has changed, wakes the database's parked job, which copies it; a running job polls the
   * object itself.
   */
  async #followSecurity(signal: AbortSignal): Promise<void> {
    const { runtime, kv, store } = this.#parts;
    while (this.#followed.rule.copiesSecurity && !signal.aborted) {
      const startMs = runtime.clock.monotonicMs();
      for await (const rows of rowsOfRule(kv, store, this.#followed)) {
        for (const row of rows) await this.#compareSecurity(row, signal);
      }
      const waitMs = Math.max(0, startMs + SECURITY_ROUND_MS_MIN - runtime.clock.monotonicMs());
      await runtime.clock.sleep(waitMs, signal);
    }
  }

  async #compareSecurity(row: RuleDatabase, signal: AbortSignal): Promise<void> {
    await this.#turn(1, signal);
    const text = await this.#server.security(row.database, signal);
    if (text === undefined) return;
    const digest = securityDigest(this.#parts.runtime.digests, text);
    if (digest === row.securityDigest) return;
    await this.#inPages([row.database], signal, async (tx, database) => {
      const { store } = this.#parts;
      const [now] = await store.databasesNamed(tx, this.#followed, [database]);
      if (now === undefined || !(await this.#takesUp(tx, database))) return;
      store.setDatabase(tx, this.#followed, { ...now, securityDigest: digest });
    });
  }

  /**
   * Ensures that a later run of the job copies the changed security object: makes the job due if it
   * is parked. Returns false if the job is running: its run might have read the object before the
   * change.
   */
  async #takesUp(tx: Transaction, database: string): Promise<boolean> {
    const { jobs, controls, parked, runtime } = this.#parts;
    const id = ruleJobId(this.#followed.uuid, database);
    const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (job === undefined || !isReadable(job) || isRunning(job)) return false;
    if ((await stepFor(tx, controls, job, "changed")) !== "again") return true;
    await parked.remove(tx, id);
    const nowSec = currentSec(runtime.clock);
    await jobs.resubmit(tx, job, nowSec, encodeProgress(restarted(decodeJob(job))));
    return true;
  }

  /**
   * Calls `change` for each name, in transactions of up to `CHANGED_MAX` names. Each transaction
   * verifies that the rule's job is still held.
   */
  async #inPages(
    names: readonly string[],
    signal: AbortSignal,
    change: (tx: Transaction, name: string) => Promise<void>,
  ): Promise<void> {
    const { kv, jobs } = this.#parts;
    for (const page of chunksOf(names, CHANGED_MAX)) {
      signal.throwIfAborted();
      await kv.transact(
        async (tx) => {
          await jobs.verify(tx, this.#held);
          for (const name of page) await change(tx, name);
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /** Returns the target of a matching database, if the target is valid. */
  #targetUrl(database: string): string | undefined {
    const matched = matchRule(this.#followed.rule, database);
    const isThere = matched.kind === "match" && matched.target.kind === "target";
    return isThere ? matched.target.url : undefined;
  }

  #turn(requestCount: number, signal: AbortSignal): Promise<void> {
    const { server } = this.#followed.rule;
    if (server === undefined) {
      return this.#parts.pace.turn(LOCAL_SOURCE, requestCount * LOCAL_COST, signal);
    }
    return this.#parts.pace.turn(server.url, requestCount, signal);
  }
}

function namesOf(rows: readonly RuleDatabase[]): readonly string[] {
  return rows.map(({ database }) => database);
}

function isRunning(job: Job): boolean {
  return phaseOf(job, decodeJob(job)) === "running";
}

function faultOf({ target }: RuleMatch & { readonly kind: "match" }): string | undefined {
  return target.kind === "invalid" ? target.reason : undefined;
}
