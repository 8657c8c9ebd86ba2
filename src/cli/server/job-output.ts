/** Formats the server's JSON about jobs for the terminal. */
import { printJson } from "../../base/index.ts";
import {
  type FailurePage,
  isLagUnknown,
  JOB_STATES,
  type Job,
  type JobEvent,
  type JobPage,
  type JobRun,
  type PastPage,
  type RuleStatus,
  STATE_WORDS,
  stateWord,
} from "../../contract/index.ts";
import { quoted } from "../terminal/quoted.ts";
import { NOTE_INDENT, printable, table } from "../terminal/table.ts";
import { columnsOf, wrapped } from "../terminal/width.ts";
import { answerWith } from "./answers.ts";
import { loginWait } from "./logins.ts";

/** Options of tables whose last column is text to be wrapped. */
const WITH_TEXT = { wrapsLast: true };

/** A job with its last runs. */
export interface ShownJob extends Job {
  readonly runs: readonly JobRun[];
}

/** A table of jobs, with the last failure below each. */
export function printJobs(answer: unknown): string {
  const { jobs, total_rows: total, bookmark } = answerWith<JobPage>(answer, { jobs: "array" });
  const rows = jobs.map((job) => [
    job.name,
    stateWord(job),
    lagOf(job),
    String(job.source),
    String(job.target),
  ]);
  const found = total === null ? "" : `${total} in all. `;
  const more = bookmark === null ? "" : `${found}More: --bookmark ${quoted(bookmark)}\n`;
  const notes = [[], ...jobs.map((job) => [failureOf(job)])];
  const heading = ["JOB", "STATE", "LAG", "FROM", "TO"];
  return `${table([heading, ...rows], { soft: [3, 4], notes })}${more}`;
}

/** Formats an event as a line. An event `gap` means that earlier events were lost. */
export function printEvent(event: string | undefined, data: unknown): string {
  if (event !== "job")
    return "some events were missed: run tandem jobs list for the current state\n";
  const { time, name, changes, job } = data as JobEvent;
  const failure = job === null || job.last_failure === null ? "" : `  ${failureOf(job)}`;
  const line = printable(`${time}  ${changes.join(", ").padEnd(11)}  ${name}${failure}`);
  return `${wrapped(line, columnsOf() - NOTE_INDENT).join(`\n${" ".repeat(NOTE_INDENT)}`)}\n`;
}

/** Formats a page of past events. */
export function printPast(answer: unknown): string {
  const { events, before } = pastOf(answer);
  const lines = events.map((event) => printEvent("job", event)).join("");
  if (before !== null) return `${lines}More: --before ${before}\n`;
  return lines === "" ? "no more events\n" : lines;
}

/** The response of `/_tandem/events/_past`. */
export function pastOf(answer: unknown): PastPage {
  return answerWith<PastPage>(answer, { events: "array" });
}

/** Formats the last failure of a job. The job might have been restarted since then. */
function failureOf({ last_failure: failure, info }: Job): string {
  if (failure === null) return String(info?.error ?? "");
  return `${failure.error}: ${failure.reason}`;
}

export function printJob(answer: unknown): string {
  const job = answerWith<ShownJob>(answer, { id: "string", state: "string", runs: "array" });
  const facts = [
    ["job", job.name],
    ["replication id", job.id],
    ["state", shownState(job)],
    ["source", String(job.source)],
    ["target", String(job.target)],
    ["owner", job.user ?? "-"],
    ["tags", tagsOf(job)],
    ["required labels", placementOf(job)],
    ["starts after", awaitedBy(job)],
    ["directions", job.pair === true ? "both (pair)" : "source to target"],
    ["node", job.node ?? "-"],
    ["lag", lagOf(job)],
    ["pending changes", String(job.pending ?? "-")],
    ["copies", `${job.docs_per_sec} documents/s, ${job.bytes_per_sec} bytes/s`],
    ["held back by", job.held_back_by ?? "-"],
    ["next try", job.next_try ?? "-"],
    ["login", job.login_gate == null ? "-" : loginWait(job.login_gate)],
    ["errors", String(job.error_count)],
    ["failing since", job.failing_since ?? "-"],
    ["last failure", failureOf(job)],
    ["tries since then", String(job.last_failure?.tries ?? 0)],
    ["failed documents", String(job.left_behind)],
    ...Object.entries(job.info ?? {}).map(([name, value]) => [name, String(value)]),
  ];
  const events = job.history.map(({ timestamp, type, reason }) => [timestamp, type, reason ?? ""]);
  const control = job.control.map(({ timestamp, action, user, why, since }) => [
    timestamp,
    since === undefined ? action : `${action} ${printJson(since)}`,
    `by ${user ?? "an anonymous user"}`,
    why ?? "",
  ]);
  const decided = control.length === 0 ? "" : `\ndecided:\n${table(control, WITH_TEXT)}`;
  const ran = job.runs.length === 0 ? "" : `\nlast runs:\n${runTable(job.runs)}`;
  return `${table(facts, WITH_TEXT)}\nhistory:\n${table(events, WITH_TEXT)}${decided}${ran}`;
}

function tagsOf({ tags }: Job): string {
  const texts = Object.entries(tags).map(([name, value]) => `${name}:${value}`);
  return texts.length === 0 ? "-" : texts.join(", ");
}

function placementOf({ run_on: labels = [] }: Partial<Job>): string {
  return labels.length === 0 ? "any labels" : labels.join(", ");
}

function awaitedBy({ after: names = [] }: Partial<Job>): string {
  return names.length === 0 ? "-" : names.join(", ");
}

/** The job's state for operators, followed by the state in the queue if that differs. */
function shownState(job: Job): string {
  const word = stateWord(job);
  return word === job.state ? word : `${word} (${job.state})`;
}

/** Counts of a rule's jobs by state, such as `3 running`. */
export function statesOf({ states }: RuleStatus): readonly string[] {
  const found = JOB_STATES.filter((state) => states[state] > 0);
  return found.map((state) => `${states[state]} ${STATE_WORDS[state]}`);
}

export function printRuns(answer: unknown): string {
  const runs = runsOf(answer);
  return runs.length === 0 ? "no run has ended yet\n" : runTable(runs);
}

/** The response of `/_tandem/jobs/{id}/runs`. */
export function runsOf(answer: unknown): ShownJob["runs"] {
  return answerWith<Pick<ShownJob, "runs">>(answer, { runs: "array" }).runs;
}

function runTable(runs: readonly JobRun[]): string {
  const rows = runs.map((run) => [
    seconds(run.start),
    seconds(run.end),
    run.cause,
    String(run.docs_written ?? "-"),
    String(run.doc_write_failures ?? "-"),
    String(run.bytes ?? "-"),
    secondsOf(run.lag_sec),
    shortSequence(run.checkpoint),
  ]);
  const notes = [[], ...runs.map(({ reason }) => [reason ?? ""])];
  const heading = ["BEGAN (UTC)", "ENDED", "WHY", "WRITTEN", "REFUSED", "BYTES", "LAG", "SEQ"];
  return table([heading, ...rows], { soft: [7], whole: [0, 1], notes });
}

/** Month, day and time in UTC: `11-23 13:54:07`. */
function seconds(time: string): string {
  return time.slice(5, 19).replace("T", " ");
}

/** Abbreviates a sequence, which can have thousands of characters but begins with its number. */
function shortSequence(sequence: unknown): string {
  const text = typeof sequence === "string" ? sequence : printJson(sequence);
  return text.length <= 24 ? text : `${text.slice(0, 23)}…`;
}

/**
 * Formats the lag of a job: `0 s` if the job has caught up, `unknown`, or a dash for a job that is
 * paused or has ended.
 */
function lagOf(job: Pick<Job, "lag_sec" | "paused" | "state">): string {
  return isLagUnknown(job) ? "unknown" : secondsOf(job.lag_sec);
}

function secondsOf(lagSec: number | null): string {
  return lagSec === null ? "-" : `${lagSec} s`;
}

export function printFailures(answer: unknown): string {
  const { failures, total_rows: total } = answerWith<FailurePage>(answer, {
    failures: "array",
    total_rows: "number",
  });
  if (total === 0) return "no documents failed\n";
  const rows = failures.map(({ id, rev, phase, status, tries }) => [
    id,
    rev,
    phase,
    String(status ?? "-"),
    String(tries),
  ]);
  const heading = ["DOCUMENT", "REVISION", "PHASE", "STATUS", "TRIES"];
  return table([heading, ...rows], {
    soft: [1],
    notes: [[], ...failures.map(({ reason }) => [reason])],
  });
}
