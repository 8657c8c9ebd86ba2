/**
 * Derives alerts from job events. One node does this for the whole cluster; its lease is recorded
 * in the store.
 *
 * The event log shows when a job begins or ceases to fail, to stall, or to have failed documents,
 * and when it ends. Alerts are written in the same transaction as the id of the last event
 * processed, so each breach is reported only once. Growing lags are found in the lists of jobs
 * instead, as are changes made while the log was not followed.
 */
import { type Runtime, randomHex } from "../../base/index.ts";
import type { JobChangeName } from "../../contract/index.ts";
import {
  type KeyBounds,
  type KeyValueStore,
  keyAfter,
  type ReadTransaction,
  type Subspace,
  type Transaction,
} from "../../kv/index.ts";
import type { JobIndex } from "../job-lists/job-index.ts";
import type { JobEventLog, LoggedEvent } from "../job-log/job-event-log.ts";
import { classOfError } from "../jobs/failing.ts";
import { behindValue, hasFlag, hasLag, type JobStatus } from "../jobs/job-status.ts";
import { ruleUuidOf } from "../jobs/rule-jobs.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { splitTerm, tagTerms } from "../request/tags.ts";
import { UNFOLLOWED } from "../rules/rule-summaries.ts";
import { RULES_MAX, type Rules } from "../rules/rules.ts";
import {
  type Alert,
  type AlertCause,
  type AlertKind,
  alertGroup,
  type BreachKind,
  JOB_BREACH_KINDS,
  type JobBreachKind,
} from "./alert.ts";
import { AlertStore, type WaitingAlert } from "./alert-store.ts";

/** Maximum number of waiting alerts that are read to form a group. */
const GROUPED_MAX = 1_000;
/** Maximum number of events, jobs or breaches processed per transaction. */
const PAGE_ROWS_MAX = 200;
/**
 * Maximum remaining time of a valid lease. A lease with more time left has no effect: it was stored
 * before a clock was set back.
 */
const TURN_MS_MAX = 3_600_000;
/**
 * Fraction of the lag threshold below which a breach is resolved. It is less than 1, so that
 * fluctuations around the threshold are not reported.
 */
const RESOLVED_LAG_RATIO = 1 / 2;

/** Alert settings. Read at each use, so that changes take effect immediately. */
export interface AlertWatchSettings {
  readonly kinds: readonly AlertKind[];
  /** Lag threshold in seconds. A job with a longer lag is in breach. */
  readonly lagSec: number;
}

/** Names of the tags included in alerts. Read at each use. */
export interface AlertTagSettings {
  readonly metricTags: readonly string[];
}

export interface AlertWatchParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  readonly events: JobEventLog;
  readonly index: JobIndex;
  readonly rules: Pick<Rules, "failures" | "tagsOf">;
  readonly settings: AlertWatchSettings;
  readonly tags: AlertTagSettings;
  /** Whether the format of the store supports alerts about rules. */
  readonly reportsRules: (tx: ReadTransaction) => Promise<boolean>;
}

/** For each kind of breach, the events that begin and end the breach. */
const BREACH_CHANGES: readonly (readonly [JobBreachKind, JobChangeName, JobChangeName])[] = [
  ["failing", "failing", "recovered"],
  ["stalled", "stalling", "moving"],
  ["left_behind", "left_behind", "arrived"],
];

/**
 * Result of following the log. `all`: no events are left; `gap`: events are missing, because they
 * were deleted or the log was never followed; `lost`: another node has the lease.
 */
export type Followed = "more" | "all" | "gap" | "lost";

/** Result of a delivery. A rejected alert is not sent again. */
export type DeliveryOutcome =
  | { readonly kind: "sent" }
  | { readonly kind: "rejected" | "failed"; readonly error: string };

export class AlertWatch {
  readonly #parts: AlertWatchParts;
  readonly #keys: ReplicatorKeys;
  readonly #store: AlertStore;
  readonly #self: string;
  /** Rules that were not followed by any node at the last comparison. */
  #unfollowed: ReadonlySet<string> = new Set();

  constructor(parts: AlertWatchParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
    this.#store = new AlertStore(parts.subspace);
    this.#self = randomHex(parts.runtime.random);
  }

  /**
   * Acquires the lease (`taken`) or extends it (`held`). Returns `others` if another node holds the
   * lease.
   */
  takeTurn(turnMs: number): Promise<"held" | "taken" | "others"> {
    const nowMs = this.#parts.runtime.clock.nowMs();
    return this.#transact(async (tx) => {
      const turn = await this.#store.turn(tx);
      const leftMs = turn.untilMs - nowMs;
      const isOurs = turn.holder === this.#self;
      const isOver = turn.holder === undefined || leftMs <= 0 || leftMs > TURN_MS_MAX;
      if (!isOurs && !isOver) return "others";
      const isEarly = isOurs && leftMs > turnMs / 2 && leftMs <= turnMs;
      if (!isEarly) {
        this.#store.setTurn(tx, { ...turn, holder: this.#self, untilMs: nowMs + turnMs });
      }
      return isOurs ? "held" : "taken";
    });
  }

  /** Releases the lease. */
  async leaveTurn(): Promise<void> {
    await this.#inTurn(async (tx) => {
      const turn = await this.#store.turn(tx);
      this.#store.setTurn(tx, { ...turn, holder: undefined });
    });
  }

  /** Processes the next page of events. */
  async follow(): Promise<Followed> {
    const { events } = this.#parts;
    const followed = await this.#inTurn(async (tx): Promise<Followed> => {
      const turn = await this.#store.turn(tx);
      if (turn.cursor === undefined) {
        this.#store.setTurn(tx, { ...turn, cursor: await events.lastId(tx) });
        return "gap";
      }
      const page = await events.page(tx, turn.cursor, PAGE_ROWS_MAX);
      for (const event of page.events) await this.#note(tx, event);
      const cursor = page.events.at(-1)?.id ?? page.forgottenId;
      if (cursor !== undefined) this.#store.setTurn(tx, { ...turn, cursor });
      if (page.forgottenId !== undefined) return "gap";
      return page.events.length === PAGE_ROWS_MAX ? "more" : "all";
    });
    return followed ?? "lost";
  }

  /** Reconciles all breaches with the current lists of jobs and rules. */
  async compareAll(): Promise<void> {
    for (const kind of JOB_BREACH_KINDS) await this.#compare(kind);
    await this.#compareRules();
  }

  /**
   * Compares the recorded breaches of lags and rules with the current ones, because no event
   * announces them.
   */
  async compareSilent(): Promise<void> {
    await this.#compare("lag");
    await this.#compareRules();
  }

  /**
   * Returns the oldest waiting alert for which `isHeld` is false, together with all other waiting
   * alerts of its group.
   */
  async nextGroup(isHeld: (alert: Alert) => boolean): Promise<readonly WaitingAlert[]> {
    const waiting = await this.#parts.kv.read((tx) => this.#store.waiting(tx, GROUPED_MAX));
    const first = waiting.find(({ alert }) => !isHeld(alert));
    if (first === undefined) return [];
    const group = alertGroup(first.alert);
    return waiting.filter(({ alert }) => alertGroup(alert) === group);
  }

  /**
   * Removes alerts that the receiver has accepted or permanently rejected, and records the outcome.
   */
  async settle(alerts: readonly WaitingAlert[], outcome: DeliveryOutcome): Promise<void> {
    await this.#transact(async (tx) => {
      this.#store.remove(tx, alerts);
      await this.#noteOutcome(tx, alerts, outcome);
    });
  }

  /** Records a failed delivery. Test alerts are removed; all other alerts continue to wait. */
  async failed(alerts: readonly WaitingAlert[], error: string): Promise<void> {
    await this.#transact(async (tx) => {
      const tests = alerts.filter(({ alert }) => alert.kind === "test");
      this.#store.remove(tx, tests);
      await this.#noteOutcome(tx, alerts, { kind: "failed", error });
    });
  }

  async #noteOutcome(
    tx: Transaction,
    alerts: readonly WaitingAlert[],
    outcome: DeliveryOutcome,
  ): Promise<void> {
    const state = await this.#store.state(tx);
    const nowMs = this.#parts.runtime.clock.nowMs();
    const tested = alerts.find(({ alert }) => alert.kind === "test")?.alert.id;
    const error = outcome.kind === "sent" ? undefined : outcome.error;
    const isRejected = outcome.kind === "rejected";
    this.#store.setState(tx, {
      sentMs: error === undefined ? nowMs : state.sentMs,
      rejectedCount: state.rejectedCount + (isRejected ? alerts.length : 0),
      failure: error === undefined ? undefined : { timeMs: nowMs, error, isRejected },
      test: tested === undefined ? state.test : { id: tested, error },
    });
  }

  async #note(tx: Transaction, { jobId, changes, timeMs }: LoggedEvent): Promise<void> {
    for (const change of changes) {
      for (const [kind, begun, over] of BREACH_CHANGES) {
        if (change === begun) await this.#open(tx, kind, jobId, timeMs);
        if (change === over) await this.#resolve(tx, kind, jobId, timeMs);
      }
      if (change === "removed") {
        for (const kind of JOB_BREACH_KINDS) await this.#resolve(tx, kind, jobId, timeMs);
      }
      if (change === "completed" || change === "failed") {
        const status = await this.#parts.index.statuses.get(tx.snapshot, jobId);
        const cause = this.#cause(jobId, status, false);
        this.#append(tx, {
          ...{ kind: "finished", status: change, jobId, cause },
          ...{ timeMs, sinceMs: timeMs },
        });
      }
    }
  }

  async #open(tx: Transaction, kind: JobBreachKind, jobId: string, sinceMs: number): Promise<void> {
    if (!this.#parts.settings.kinds.includes(kind)) return;
    const [known] = await this.#store.breaches(tx, kind, [jobId]);
    if (known !== undefined) return;
    const status = await this.#parts.index.statuses.get(tx.snapshot, jobId);
    if (kind === "lag" && status !== undefined && !hasLag(status)) return;
    const cause = this.#cause(jobId, status, kind === "failing");
    this.#begin(tx, { kind, jobId, cause, sinceMs });
  }

  #begin(
    tx: Transaction,
    {
      kind,
      jobId,
      cause,
      sinceMs,
    }: Pick<Alert, "jobId" | "cause" | "sinceMs"> & {
      readonly kind: BreachKind;
    },
  ): void {
    const alert = { kind, status: "firing", jobId, cause, timeMs: sinceMs, sinceMs } as const;
    const id = this.#append(tx, alert);
    if (id !== undefined) this.#store.setBreach(tx, kind, jobId, { id, sinceMs, cause });
  }

  async #resolve(tx: Transaction, kind: BreachKind, jobId: string, timeMs: number): Promise<void> {
    const [known] = await this.#store.breaches(tx, kind, [jobId]);
    if (known === undefined) return;
    this.#store.clearBreach(tx, kind, jobId);
    const { id: breachId, sinceMs, cause } = known;
    this.#append(tx, { kind, status: "resolved", breachId, jobId, timeMs, sinceMs, cause });
  }

  /**
   * Queues an alert for sending. Returns the id of the alert, or undefined if alerts of this kind
   * are disabled.
   */
  #append(
    tx: Transaction,
    alert: Omit<Alert, "id" | "breachId" | "kind"> &
      Partial<Pick<Alert, "breachId">> & { readonly kind: AlertKind },
  ): string | undefined {
    if (!this.#parts.settings.kinds.includes(alert.kind)) return undefined;
    const id = randomHex(this.#parts.runtime.random);
    this.#store.append(tx, { breachId: id, ...alert, id });
    return id;
  }

  async #compare(kind: JobBreachKind): Promise<void> {
    const nowMs = this.#parts.runtime.clock.nowMs();
    const { kinds } = this.#parts.settings;
    if (kinds.includes(kind)) await this.#openListed(kind, nowMs);
    await this.#resolveOthers(kind, nowMs);
  }

  /**
   * Updates the recorded breaches of the kind `rule_failing`: there is one for each rule that
   * currently cannot list the databases of its source.
   */
  async #compareRules(): Promise<void> {
    const { settings, rules, runtime } = this.#parts;
    const kind = "rule_failing";
    if (!settings.kinds.includes(kind)) return;
    const failures = await rules.failures();
    const unfollowed = [...failures].flatMap(([name, of]) => (of === UNFOLLOWED ? [name] : []));
    // Do not report an unfollowed rule before the second comparison: shortly after this node has
    // started, its worker might not have registered yet.
    const fresh = unfollowed.filter((name) => !this.#unfollowed.has(name));
    this.#unfollowed = new Set(unfollowed);
    const nowMs = runtime.clock.nowMs();
    await this.#inTurn(async (tx) => {
      if (!(await this.#parts.reportsRules(tx))) return;
      const known = new Set(await this.#store.breachedJobs(tx, kind, undefined, RULES_MAX));
      for (const name of known) {
        if (!failures.has(name)) await this.#resolve(tx, kind, name, nowMs);
      }
      for (const [name, { error, cause }] of failures) {
        if (known.has(name) || fresh.includes(name)) continue;
        const { class: failureClass, host } = cause ?? {
          class: classOfError(error),
          host: undefined,
        };
        const tags = this.#configured(tagTerms(await rules.tagsOf(tx.snapshot, name)));
        const place = { side: "source", host, rule: undefined, tags };
        this.#begin(tx, {
          kind,
          jobId: name,
          cause: { class: failureClass, ...place },
          sinceMs: nowMs,
        });
      }
    });
  }

  async #openListed(kind: JobBreachKind, nowMs: number): Promise<void> {
    const { kv, index } = this.#parts;
    await index.shorten(kv);
    let { begin, end } = this.#listOf(kind, nowMs);
    for (let isLast = false; !isLast; ) {
      const count = await this.#inTurn(async (tx) => {
        const view = await index.view(tx);
        const rows = await view.rows({ begin, end }, { limit: PAGE_ROWS_MAX });
        for (const { jobId } of rows) await this.#open(tx, kind, jobId, nowMs);
        return { rows: rows.length, last: rows.at(-1)?.key };
      });
      isLast = count === undefined || count.rows < PAGE_ROWS_MAX;
      if (count?.last !== undefined) begin = keyAfter(count.last);
    }
  }

  async #resolveOthers(kind: JobBreachKind, nowMs: number): Promise<void> {
    let afterId: string | undefined;
    do {
      afterId = await this.#inTurn(async (tx) => {
        const ids = await this.#store.breachedJobs(tx, kind, afterId, PAGE_ROWS_MAX);
        for (const id of ids) {
          if (!(await this.#isBreach(tx, kind, id, nowMs)))
            await this.#resolve(tx, kind, id, nowMs);
        }
        return ids.length === PAGE_ROWS_MAX ? ids.at(-1) : undefined;
      });
    } while (afterId !== undefined);
  }

  async #isBreach(
    tx: ReadTransaction,
    kind: JobBreachKind,
    jobId: string,
    nowMs: number,
  ): Promise<boolean> {
    const status = await this.#parts.index.statuses.get(tx.snapshot, jobId);
    if (status === undefined) return false;
    return kind === "lag" ? this.#isLag(status, nowMs) : hasFlag(status, kind);
  }

  #isLag(status: JobStatus, nowMs: number): boolean {
    if (!hasLag(status)) return false;
    const { behindSinceMs } = status;
    const shortestMs = this.#parts.settings.lagSec * 1000 * RESOLVED_LAG_RATIO;
    return behindSinceMs !== undefined && nowMs - behindSinceMs >= shortestMs;
  }

  #listOf(kind: JobBreachKind, nowMs: number): KeyBounds {
    if (kind === "failing") return this.#keys.statusRow.range({ list: "since" });
    if (kind !== "lag") return this.#keys.statusRow.range({ list: "flag", value: kind });
    const sinceMs = nowMs - this.#parts.settings.lagSec * 1000;
    const { begin } = this.#keys.statusRow.range({ list: "behind", value: behindValue(sinceMs) });
    return { begin, end: this.#keys.statusRow.range({ list: "behind" }).end };
  }

  /**
   * Returns the cause to store with an alert: the job's rule and tags and, if `hasFailed`, also the
   * class and place of the failure.
   */
  #cause(jobId: string, status: JobStatus | undefined, hasFailed: boolean): AlertCause {
    const { class: failureClass, place } = (hasFailed ? status?.failing : undefined) ?? {};
    return {
      class: failureClass,
      side: place?.side,
      host: place?.host,
      rule: ruleUuidOf(jobId),
      tags: this.#configured(status?.tags ?? []),
    };
  }

  #configured(tags: readonly string[]): readonly string[] {
    const { metricTags } = this.#parts.tags;
    return tags.filter((tag) => metricTags.includes(splitTerm(tag)[0]));
  }

  /**
   * Runs `body` in a transaction if this node holds the lease. Otherwise, writes nothing and
   * returns undefined.
   */
  #inTurn<T>(body: (tx: Transaction) => Promise<T>): Promise<T | undefined> {
    return this.#transact(async (tx) => {
      const { holder } = await this.#store.turn(tx);
      return holder === this.#self ? body(tx) : undefined;
    });
  }

  #transact<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#parts.kv.transact(body, { whenUnknown: "retry" });
  }
}
