/** Messages about alerts, in the formats of the receivers. All functions are pure. */
import { type Alert, isoTime, splitTerm } from "../../replicator/index.ts";
import type { AlertFormat } from "../settings/alert-settings.ts";

/** Maximum number of jobs that a message lists. */
export const LISTED_JOBS_MAX = 100;
/** Maximum number of jobs named in a message for people. */
const NAMED_MAX = 5;
/** Maximum length of a name in a message for people. */
const NAME_LENGTH_MAX = 200;
/**
 * Time after which an alert expires in Alertmanager. Alerts about a breach are resolved explicitly,
 * so they must not expire earlier. Other alerts are never resolved explicitly. They last for some
 * minutes, because Alertmanager does not forward alerts that have expired before it receives them.
 */
const LASTING_MS = { breach: 365 * 24 * 3_600_000, other: 5 * 60_000 };

/** The jobs of a group of alerts. */
export interface AlertedJobs {
  /** Names of the jobs that still exist, by id. */
  readonly names: ReadonlyMap<string, string>;
  /** The first job, in the format of the job list; null if the job no longer exists. */
  readonly row: unknown;
  readonly rule: string | null;
}

/**
 * Returns the rules that the alerts concern, as if they were jobs. The rules' names serve as ids.
 */
export function alertedRules(alerts: readonly Alert[]): AlertedJobs {
  const names = alerts.map(({ jobId: rule }) => rule);
  const [rule = null, ...others] = names;
  return {
    names: new Map(names.map((name) => [name, name])),
    row: null,
    rule: others.length === 0 ? rule : null,
  };
}

/** Returns the id of the job that an alert concerns, or null for an alert about a rule. */
function jobIdOf({ kind, jobId }: Alert): string | null {
  return kind === "rule_failing" ? null : jobId;
}

/** Returns the body of a message about a group of alerts. The group must not be empty. */
export function messageOf(
  format: AlertFormat,
  alerts: readonly Alert[],
  jobs: AlertedJobs,
  nowMs: number,
): string {
  if (format === "alertmanager") return JSON.stringify(alertmanagerAlerts(alerts, jobs, nowMs));
  if (format === "slack") return JSON.stringify({ text: slackText(alerts, jobs) });
  return JSON.stringify(tandemMessage(alerts, jobs, nowMs));
}

function tandemMessage(alerts: readonly Alert[], { names, row, rule }: AlertedJobs, nowMs: number) {
  const [first] = alerts as [Alert];
  const { id, kind, status, breachId, timeMs, cause } = first;
  return {
    id,
    event: kind,
    status,
    breach: breachId,
    time: isoTime(timeMs),
    sent: isoTime(nowMs),
    job_id: jobIdOf(first),
    job: row,
    class: cause.class ?? null,
    side: cause.side ?? null,
    host: cause.host ?? null,
    rule,
    tags: Object.fromEntries(cause.tags.map(splitTerm)),
    count: alerts.length,
    alerts: alerts.slice(0, LISTED_JOBS_MAX).map((alert) => ({
      id: alert.id,
      breach: alert.breachId,
      job_id: jobIdOf(alert),
      name: names.get(alert.jobId) ?? null,
    })),
  };
}

/**
 * Returns the body of a request to Alertmanager's `POST /api/v2/alerts`. It contains one alert for
 * each job; Alertmanager groups them.
 */
function alertmanagerAlerts(
  alerts: readonly Alert[],
  { names, rule }: AlertedJobs,
  nowMs: number,
): readonly unknown[] {
  return alerts.map((alert) => {
    const { kind, status, jobId, timeMs, sinceMs, cause } = alert;
    const isRule = kind === "rule_failing";
    const name = isRule ? undefined : names.get(jobId);
    const labels = {
      alertname: `Tandem_${kind}`,
      ...(kind === "finished" ? { outcome: status } : {}),
      ...(isRule ? { rule: jobId } : jobId === "" ? {} : { job_id: jobId }),
      ...(cause.class === undefined ? {} : { class: cause.class }),
      ...(cause.side === undefined ? {} : { side: cause.side }),
      ...(cause.host === undefined ? {} : { host: cause.host }),
      ...Object.fromEntries(cause.tags.map(tagLabel)),
    };
    const annotations = {
      summary: headline([alert]),
      ...(name === undefined ? {} : { job: name }),
      ...(rule === null || isRule ? {} : { rule }),
    };
    const isBreach = kind !== "test" && kind !== "finished";
    const lasting = nowMs + LASTING_MS[isBreach ? "breach" : "other"];
    const endMs = status === "resolved" ? timeMs : lasting;
    return { labels, annotations, startsAt: isoTime(sinceMs), endsAt: isoTime(endMs) };
  });
}

/**
 * Returns the label name and value for a tag. Alertmanager's label names must not contain hyphens.
 */
function tagLabel(tag: string): readonly [label: string, value: string] {
  const [name, value = ""] = splitTerm(tag);
  return [`tag_${name.replaceAll("-", "_")}`, value];
}

/** Returns the text for an incoming webhook of Slack, in its `mrkdwn` format. */
function slackText(alerts: readonly Alert[], { names, rule }: AlertedJobs): string {
  const named = alerts.flatMap(({ jobId }) => names.get(jobId) ?? []);
  const more = alerts.length - Math.min(named.length, NAMED_MAX);
  const lines = named.slice(0, NAMED_MAX).map((name) => `• ${code(name)}`);
  if (lines.length > 0 && more > 0) lines.push(`and ${more} more`);
  const ofRule = rule === null || alerts[0]?.kind === "rule_failing" ? "" : ` (rule ${code(rule)})`;
  return [`*${escaped(headline(alerts))}*${ofRule}`, ...lines].join("\n");
}

const HEADLINES: Readonly<Record<Alert["kind"], string>> = {
  failing: "failing",
  stalled: "making no progress",
  left_behind: "with failed documents",
  lag: "behind",
  rule_failing: "failing",
  finished: "ended",
  test: "test alert",
};

/** Returns a sentence such as `3 jobs failing: unreachable at far.example (source)`. */
function headline(alerts: readonly Alert[]): string {
  const [{ kind, status, cause }] = alerts as [Alert];
  if (kind === "test") return "Tandem test alert";
  const noun = kind === "rule_failing" ? "rule" : "job";
  const jobs = `${alerts.length} ${noun}${alerts.length === 1 ? "" : "s"}`;
  const at = cause.host === undefined ? "" : ` at ${cause.host}`;
  const side = cause.side === undefined ? "" : ` (${cause.side})`;
  const why = cause.class === undefined ? "" : `: ${cause.class}${at}${side}`;
  if (kind === "finished") return `${jobs} ${status}`;
  return `${jobs} ${status === "resolved" ? "no longer " : ""}${HEADLINES[kind]}${why}`;
}

/** Formats a name as code in one line, so that Slack does not interpret markup in it. */
function code(name: string): string {
  const line = name.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").replaceAll("`", "'");
  const characters = [...line];
  const isLong = characters.length > NAME_LENGTH_MAX;
  const shown = isLong ? `${characters.slice(0, NAME_LENGTH_MAX).join("")}…` : line;
  return `\`${escaped(shown)}\``;
}

/** Escapes the three characters that have a meaning in Slack's texts. */
function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
