/**
 * Sends alerts to the receiver at `[alerts] url`. One node sends all alerts, in order, and retries
 * with growing pauses until the receiver accepts them. Alerts with the same event, cause, host and
 * rule are sent in one message. A message that the receiver rejects (4xx) is not sent again. The
 * receiver can get an alert twice if its response is lost, or if the node dies before it records
 * that the alert was sent.
 */
import { type JobsParts, jobRows } from "../../api/index.ts";
import { backoff, type Runtime } from "../../base/index.ts";
import {
  type Alert,
  type AlertWatch,
  alertGroup,
  jobName,
  type WaitingAlert,
} from "../../replicator/index.ts";
import type { AlertSettings } from "../settings/alert-settings.ts";
import type { Service } from "../supervise.ts";
import { type AlertedJobs, alertedRules, LISTED_JOBS_MAX, messageOf } from "./alert-message.ts";
import { post, type WebhookParts } from "./webhook.ts";

/** Interval at which a node checks whether it is the sender, and whether there are new events. */
const TICK_MS = 1000;
/** Interval for checking lags and rules, which can exceed their limits without an event. */
const SILENT_MS = 5000;
/** The request timeout plus this time is the length of a node's turn as the sender of alerts. */
const TURN_MS_MORE = 10_000;
const PAUSE_MS = { min: 1000, max: 5 * 60_000 };
/** Age after which an unsent alert is dropped. */
const AGE_MS_MAX = 24 * 3_600_000;

export interface AlertSenderParts extends Omit<WebhookParts, "clock"> {
  readonly runtime: Runtime;
  readonly watch: AlertWatch;
  /** Alert settings, which can change at any time. */
  readonly settings: AlertSettings;
  readonly jobs: JobsParts;
}

export class AlertSender implements Service {
  readonly name = "server.alert-sender";
  readonly #parts: AlertSenderParts;
  /** Number of consecutive failures to send the oldest waiting alert. */
  #failureCount = 0;
  /** Monotonic time until which each group of alerts is held back. */
  readonly #heldUntilMs = new Map<string, number>();
  /** Monotonic time of the next attempt to send. */
  #nextTryMs = 0;
  #nextSilentMs = 0;
  /**
   * Settings at the time of the last complete check of all limits; undefined if a complete check is
   * due.
   */
  #compared: string | undefined;

  constructor(parts: AlertSenderParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime, watch } = this.#parts;
    try {
      while (!signal.aborted) {
        if (await this.#isOurTurn()) {
          await this.#follow();
          await this.#sendAll(signal);
        }
        await runtime.clock.sleep(TICK_MS, signal).catch(() => {});
      }
    } finally {
      if (signal.aborted) await watch.leaveTurn().catch(() => {});
    }
  }

  async #isOurTurn(): Promise<boolean> {
    const { watch, settings, runtime } = this.#parts;
    if (settings.url === undefined) return false;
    const turn = await watch.takeTurn(settings.timeoutSec * 1000 + TURN_MS_MORE);
    if (turn === "taken") {
      this.#compared = undefined;
      runtime.trace.event("alerts.turn-taken", {});
    }
    return turn !== "others";
  }

  async #follow(): Promise<void> {
    const { watch, settings, runtime } = this.#parts;
    for (;;) {
      const followed = await watch.follow();
      if (followed === "gap") this.#compared = undefined;
      else if (followed !== "more") break;
    }
    const compared = JSON.stringify([settings.kinds, settings.lagSec]);
    const nowMs = runtime.clock.monotonicMs();
    if (this.#compared !== compared) await watch.compareAll();
    else if (nowMs >= this.#nextSilentMs) await watch.compareSilent();
    else return;
    this.#compared = compared;
    this.#nextSilentMs = nowMs + SILENT_MS;
  }

  /** Sends alerts until none is due, one fails, or another node becomes the sender. */
  async #sendAll(signal: AbortSignal): Promise<void> {
    const { watch, runtime } = this.#parts;
    while (!signal.aborted) {
      const isPausing = runtime.clock.monotonicMs() < this.#nextTryMs;
      const held = this.#heldGroups();
      // Test alerts are sent even while other alerts are held back, because an operator waits for
      // them.
      const group = await watch.nextGroup(
        (alert) => alert.kind !== "test" && (isPausing || held.has(alertGroup(alert))),
      );
      if (group.length === 0 || !(await this.#isOurTurn())) return;
      await this.#send(group, signal);
    }
  }

  /** Returns the groups for which a message was sent less than `group_sec` ago. */
  #heldGroups(): ReadonlySet<string> {
    const nowMs = this.#parts.runtime.clock.monotonicMs();
    for (const [group, untilMs] of this.#heldUntilMs) {
      if (untilMs <= nowMs) this.#heldUntilMs.delete(group);
    }
    return new Set(this.#heldUntilMs.keys());
  }

  async #send(group: readonly WaitingAlert[], signal: AbortSignal): Promise<void> {
    const { settings, runtime, watch } = this.#parts;
    const { url, secret, timeoutSec, format, groupSec } = settings;
    const alerts = group.map(({ alert }) => alert);
    const [first] = alerts;
    if (url === undefined || first === undefined) return;
    const { clock, trace } = runtime;
    const { id: alertId, kind, status, jobId, timeMs } = first;
    const count = alerts.length;
    if (clock.nowMs() - timeMs > AGE_MS_MAX) {
      const error = "The receiver has not accepted the alert within a day";
      await watch.settle(group, { kind: "rejected", error });
      trace.event("alerts.dropped", { alertId, kind, jobId, count });
      return;
    }
    const receiver = { url, secret, timeoutMs: timeoutSec * 1000 };
    const body = messageOf(format, alerts, await this.#jobsOf(alerts), clock.nowMs());
    const refusal = await post({ ...this.#parts, clock }, receiver, { id: alertId, body }, signal);
    if (refusal === undefined) {
      await watch.settle(group, { kind: "sent" });
      this.#failureCount = 0;
      this.#nextTryMs = 0;
      if (kind !== "test") {
        this.#heldUntilMs.set(alertGroup(first), clock.monotonicMs() + groupSec * 1000);
      }
      trace.event("alerts.sent", { alertId, kind, status, jobId, count });
      return;
    }
    const { error, isFinal } = refusal;
    if (isFinal) {
      await watch.settle(group, { kind: "rejected", error });
      this.#failureCount = 0;
      trace.event("alerts.rejected", { alertId, kind, jobId, count, error });
      return;
    }
    await watch.failed(group, error);
    if (kind === "test") return;
    const pauseMs = backoff(PAUSE_MS, ++this.#failureCount);
    this.#nextTryMs = clock.monotonicMs() + pauseMs;
    trace.event("alerts.failed", { alertId, error, failureCount: this.#failureCount, pauseMs });
  }

  /**
   * Returns the names of the jobs that the alerts concern, and the first of these jobs in the
   * format of the job list, without secrets.
   */
  async #jobsOf(alerts: readonly Alert[]): Promise<AlertedJobs> {
    const { jobs } = this.#parts;
    if (alerts[0]?.kind === "rule_failing") return alertedRules(alerts);
    const ids = alerts.slice(0, LISTED_JOBS_MAX).map(({ jobId }) => jobId);
    const found = await jobs.replicator.lists.byId(ids);
    const names = new Map(
      [...found].map(([id, { entry }]) => [id, jobName(entry.jobId, entry.data)] as const),
    );
    const first = found.get(ids[0] ?? "")?.entry;
    const [row] = first === undefined ? [] : await jobRows(jobs, [first]);
    const ruled = [...found.values()].find(({ entry }) => entry.data.rule !== undefined);
    return { names, row: row ?? null, rule: ruled?.entry.data.rule ?? null };
  }
}
