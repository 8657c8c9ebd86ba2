/**
 * Follows a rule, while this node holds the job that does: makes a job for each database of the source that matches, and ends those that
 * should be no more.
 *
 * No database is missed: it notes the end of the server's feed of updates, lists all databases, and then follows the feed. Feeds may lose
 * what they tell, so it lists all again now and then; without a feed it does nothing else. What it does to jobs it does in pages, each in
 * a transaction that verifies that the job is still held. A database of which it has made a job has a row with the generation of the
 * rule; after a change of the rule all rows are of an older one, until their jobs are as the rule says. So whoever goes on after it was
 * killed sees what is left to do.
 */

import { type Runtime, runTogether } from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import type { HeldJob, Job, Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import { type AddJobParts, addJob } from "../jobs/add-job.ts";
import { phaseOf } from "../jobs/decide.ts";
import { REPLICATION_JOB_TYPE, restarted } from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, isReadable } from "../jobs/job-data-record.ts";
import { stepFor, stepWhenAskedAgain } from "../jobs/job-wish.ts";
import { type RemoveJobParts, removeJob } from "../jobs/remove-job.ts";
import { replaceJob } from "../jobs/replace-job.ts";
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

/** Jobs that are made, changed or removed in one transaction. */
const CHANGED_MAX = 20;
/** Rows of databases that are read at once. */
const ROWS_MAX = 500;
/** Events are gathered for so long: a busy server is not asked for each of its changes. */
const GATHER_MS = 100;
/** How long after a listing the next one begins: with a feed, and without. A database has its job within ten seconds. */
const LIST_PAUSE_MS = { feed: 60_000, lists: 5_000 };
/** How long a round through all security objects lasts at least. */
const SECURITY_ROUND_MS_MIN = 30_000;
/** What a look into our own store costs, compared with a request. */
const LOCAL_COST = 0.1;

export interface RuleFollowerParts extends AddJobParts, RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly store: RuleStore;
  readonly pace: SweepPace;
  /** Read at each use. */
  readonly config: Pick<ReplicatorConfig, "options" | "protocols">;
}

/** A rule as its holder found it. */
export interface FollowedRule extends RuleIdentity {
  readonly name: string;
  readonly rule: Rule;
  readonly owner: Authority;
}

/** What a listing has found, for who looks at the rule. */
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

  /** Follows until the signal aborts. Rejects when the source cannot be asked, and when the job is held no more. */
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

  /** Takes up what the feed tells behind `since`. */
  async #hear(since: SourceSequence, signal: AbortSignal): Promise<void> {
    let from = since;
    while (!signal.aborted) {
      const { names, deleted, last } = await this.#server.updates(from, signal);
      const there = [...new Set(names)].filter((name) => !deleted.has(name));
      await this.#makeJobs(there.sort(), signal);
      await this.#endJobsOfGone([...deleted].sort(), signal);
      from = last;
      await this.#parts.runtime.clock.sleep(GATHER_MS, signal);
    }
  }

  /** Looks at all databases of the source, and at all rows. */
  async #list(signal: AbortSignal): Promise<ListingCount> {
    const count = new ListingCount();
    for await (const page of listNames(this.#server, () => this.#turn(1, signal), signal)) {
      for (const name of page.names) {
        const matched = matchRule(this.#followed.rule, name);
        if (matched.kind === "match") count.matched(name, faultOf(matched));
      }
      await this.#makeJobs(page.names, signal);
      await this.#endOthers(page, signal);
    }
    return count;
  }

  /** Makes jobs for those of these databases that match and have none, or one of an older generation of the rule. */
  async #makeJobs(names: readonly string[], signal: AbortSignal): Promise<void> {
    const { kv, store } = this.#parts;
    const { rule, generation } = this.#followed;
    const matching = names.filter((name) => targetOf(matchRule(rule, name)) !== undefined);
    for (let first = 0; first < matching.length; first += ROWS_MAX) {
      const page = matching.slice(first, first + ROWS_MAX);
      const rows = await kv.read((tx) => store.databasesNamed(tx.snapshot, this.#followed, page));
      const lacking = page.filter((_, index) => rows[index]?.generation !== generation);
      await this.#inPages(lacking, signal, (tx, name) => this.#makeJob(tx, name));
    }
  }

  async #makeJob(tx: Transaction, database: string): Promise<void> {
    const { jobs, store, controls, config } = this.#parts;
    const { name, uuid, generation, rule, owner } = this.#followed;
    const targetUrl = targetOf(matchRule(rule, database));
    if (targetUrl === undefined) return;
    const [row] = await store.databasesNamed(tx, this.#followed, [database]);
    if (row?.generation === generation) return;
    const replication = ruleReplication(rule, database, targetUrl, config);
    const id = ruleJobId(uuid, database);
    const existing = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (existing !== undefined) {
      const asked = { replication, ...owner };
      if ((await stepWhenAskedAgain(tx, controls, existing, asked)) === "nothing") {
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
   * Looks at the rows in the range of the listed names: ends the jobs of databases that do not match any more, and those of databases that
   * are not listed, if the rule says so. Those that stay follow the rule from now on.
   */
  async #endOthers(listed: ListedNames, signal: AbortSignal): Promise<void> {
    const { kv, store } = this.#parts;
    const { rule, generation } = this.#followed;
    const there = new Set(listed.names);
    for await (const rows of rowsOfRule(kv, store, this.#followed, listed)) {
      const others = rows.filter((row) => targetOf(matchRule(rule, row.database)) === undefined);
      await this.#endJobs(namesOf(others), signal);
      const gone = rows.filter((row) => !others.includes(row) && !there.has(row.database));
      if (rule.whenDeleted === "stop") await this.#endJobsOfGone(namesOf(gone), signal);
      else {
        const old = gone.filter((row) => row.generation !== generation);
        await this.#makeJobs(namesOf(old), signal);
      }
    }
  }

  /** Ends the jobs of those of these databases that the source does not have, if the rule says so. */
  async #endJobsOfGone(names: readonly string[], signal: AbortSignal): Promise<void> {
    const { kv, store } = this.#parts;
    if (this.#followed.rule.whenDeleted !== "stop") return;
    const rows = await kv.read((tx) => store.databasesNamed(tx.snapshot, this.#followed, names));
    const known = names.filter((_, index) => rows[index] !== undefined);
    for (let first = 0; first < known.length; first += CHANGED_MAX) {
      const page = known.slice(first, first + CHANGED_MAX);
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
   * Compares the security objects of all databases that have jobs with what they were, round and round: nothing announces their changes.
   * A parked job is woken by one, and copies it when its run begins; a job that runs looks itself.
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

  /** Whether a run of the job begins later than now: one that is under way may have looked before. */
  async #takesUp(tx: Transaction, database: string): Promise<boolean> {
    const { jobs, controls, parked, runtime } = this.#parts;
    const id = ruleJobId(this.#followed.uuid, database);
    const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (job === undefined || !isReadable(job) || isRunning(job)) return false;
    if ((await stepFor(tx, controls, job, "changed")) !== "again") return true;
    await parked.remove(tx, id);
    const nowSec = Math.floor(runtime.clock.nowMs() / 1000);
    await jobs.resubmit(tx, job, nowSec, encodeProgress(restarted(decodeJob(job))));
    return true;
  }

  /** Changes a few databases in each transaction, as long as the job is held. */
  async #inPages(
    names: readonly string[],
    signal: AbortSignal,
    change: (tx: Transaction, name: string) => Promise<void>,
  ): Promise<void> {
    const { kv, jobs } = this.#parts;
    for (let first = 0; first < names.length; first += CHANGED_MAX) {
      signal.throwIfAborted();
      await kv.transact(
        async (tx) => {
          await jobs.verify(tx, this.#held);
          for (const name of names.slice(first, first + CHANGED_MAX)) await change(tx, name);
        },
        { whenUnknown: "retry" },
      );
    }
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

/** Where a database is copied to that matches, and can be copied. */
function targetOf(matched: RuleMatch): string | undefined {
  const isThere = matched.kind === "match" && matched.target.kind === "target";
  return isThere ? matched.target.url : undefined;
}

function faultOf({ target }: RuleMatch & { readonly kind: "match" }): string | undefined {
  return target.kind === "invalid" ? target.reason : undefined;
}
