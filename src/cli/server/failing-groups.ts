/** Formats groups of failing jobs, and failing rules. */
import type { FailingGroup, FailingPage, RulesPage } from "../../contract/index.ts";
import { counted } from "../terminal/counted.ts";
import { quoted } from "../terminal/quoted.ts";
import { printable, table } from "../terminal/table.ts";
import { columnsOf, wrapped } from "../terminal/width.ts";
import { answerWith } from "./answers.ts";
import { loginWait } from "./logins.ts";

const INDENT = "    ";

/**
 * Formats a table of groups. Below each group are its cause, an example and a command. Causes are
 * never truncated; a command of several lines can be pasted as a whole.
 */
export function printFailingGroups(answer: unknown, columns = columnsOf()): string {
  const {
    groups,
    total_rows: total,
    jobs,
  } = answerWith<FailingPage>(answer, {
    groups: "array",
    total_rows: "number",
  });
  if (groups.length === 0)
    return total === 0 ? "no failing jobs\n" : `${counted(total, "group")} in total\n`;
  const isTagged = groups[0]?.tag != null;
  const heading = ["JOBS", ...(isTagged ? ["TAG"] : []), "ERROR", "SIDE", "HOST"];
  heading.push("SINCE (UTC)", "NEXT");
  const rows = groups.map((group) => [
    String(group.count),
    ...(isTagged ? [group.tag ?? "-"] : []),
    group.class,
    group.side ?? "-",
    group.host ?? "-",
    minutes(group.since),
    group.next_try === null ? "-" : group.next_try.slice(11, 16),
  ]);
  const [head = "", ...lines] = table([heading, ...rows], {
    columns,
    soft: isTagged ? [1, 4] : [3],
  })
    .trimEnd()
    .split("\n");
  const text = lines.map((line, index) =>
    [line, ...linesBelow(groups[index] as FailingGroup, columns)].join("\n"),
  );
  const shown = groups.length < total ? `${groups.length} of ${total} groups` : "All of these";
  return `${head}\n${text.join("\n")}\n\n${shown}: ${counted(jobs, "job fails", "jobs fail")}.\n`;
}

/** Formats the rules whose source cannot be listed, with their errors. Empty if no rule fails. */
export function printFailingRules(answer: unknown, columns = columnsOf()): string {
  const { rules, total_rows: total } = answerWith<RulesPage>(answer, {
    rules: "array",
    total_rows: "number",
  });
  if (rules.length === 0) return "";
  const rows = rules.map(({ name, status }) => [name, status.last_error?.error ?? "-"]);
  const notes = rules.map(({ status }) => [status.last_error?.reason ?? ""]);
  const listed = table([["RULE", "ERROR"], ...rows], {
    columns,
    whole: [0],
    notes: [[], ...notes],
  });
  const more = rules.length < total ? `${rules.length} of ${counted(total, "rule")}\n` : "";
  return `\nRules whose source cannot be listed:\n${listed}${more}`;
}

function linesBelow(group: FailingGroup, columns: number): readonly string[] {
  const width = columns - INDENT.length;
  const wait = group.login_gate == null ? [] : [loginWait(group.login_gate)];
  const texts = [causeOf(group), ...wait, `for example ${group.example}`];
  const lines = texts.flatMap((text) => wrapped(printable(text), width));
  return [...lines, ...commandFor(group, width)].map((line) => INDENT + line);
}

/**
 * Formats of failure reasons that name a request before its cause: `WORDS URL: CAUSE` and `WORDS
 * URL (CAUSE)`.
 */
const REQUESTS = [
  /^((?:could not reach|GET|HEAD|POST|PUT|DELETE) \S+(?: through the proxy \S+)?): (.+)$/s,
  /^([^:(]* https?:\/\/\S+) \((.+)\)$/s,
];

/** Returns error and reason of a group. Moves the cause before the request. */
function causeOf({ error, reason }: FailingGroup): string {
  if (reason === "") return error;
  for (const pattern of REQUESTS) {
    const [, request, cause] = pattern.exec(reason) ?? [];
    if (request !== undefined) return `${error}: ${cause} (${request})`;
  }
  return `${error}: ${reason}`;
}

/**
 * Suggests a command for a group: to replace a rejected password, or else to retry. The command has
 * as many lines as necessary.
 */
function commandFor(group: FailingGroup, width: number): readonly string[] {
  const { login, side } = group;
  // Jobs grouped by tag fail for different reasons, so no single command helps.
  if (group.tag != null) return [];
  if (group.class === "unauthorized" && login != null) {
    const start = `tandem secrets replace --failing --side ${quoted(side ?? "-")}`;
    const account = `--host ${quoted(login.host)} --username ${quoted(login.username)}`;
    return split([start, account, "--password-file -"], width);
  }
  // Without a port, the filter would match the host on any port.
  const exactly = group.host === null || /:\d+$/.test(group.host) ? group.host : `${group.host}:`;
  const start = `tandem jobs retry --error ${quoted(group.class)} --side ${quoted(group.side ?? "-")}`;
  const host = `--host ${quoted(exactly ?? "-")}`;
  return split([start, host], width);
}

/** The command on one line if it fits, otherwise on a line for each part. */
function split(parts: readonly string[], width: number): readonly string[] {
  const line = parts.join(" ");
  if (line.length <= width) return [line];
  return parts.map((part, at) => {
    const end = at < parts.length - 1 ? " \\" : "";
    return `${at === 0 ? "" : "  "}${part}${end}`;
  });
}

/** Formats a time to the minute: `2026-11-23 13:54`. */
function minutes(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}
