/** Prints groups of failing jobs. */
import type { FailingGroup, FailingPage } from "../../contract/index.ts";
import { counted } from "../terminal/counted.ts";
import { printable, table } from "../terminal/table.ts";
import { answerWith } from "./answers.ts";

/** Assumed width of the terminal. */
const WIDTH_MAX = 80;
/** Width left for the host column. */
const HOST_LENGTH_MAX = 22;

/** A table of 80 columns with an example failure for each group, followed by a sample command. */
export function printFailingGroups(answer: unknown): string {
  const {
    groups,
    total_rows: total,
    jobs,
  } = answerWith<FailingPage>(answer, {
    groups: "array",
    total_rows: "number",
  });
  const [first] = groups;
  if (first === undefined)
    return total === 0 ? "no failing jobs\n" : `${counted(total, "group")} in all\n`;
  const rows = groups.map((group) => [
    String(group.count),
    group.class,
    group.side ?? "-",
    shortened(group.host ?? "-", HOST_LENGTH_MAX),
    minutes(group.since),
    group.next_try === null ? "-" : group.next_try.slice(11, 16),
  ]);
  const heading = ["JOBS", "ERROR", "SIDE", "HOST", "SINCE (UTC)", "NEXT"];
  const [head = "", ...lines] = table([heading, ...rows])
    .trimEnd()
    .split("\n");
  const text = lines.map((line, index) => `${line}\n${wordsOf(groups[index] as FailingGroup)}`);
  const shown = groups.length < total ? `${groups.length} of ${total} groups` : "All of these";
  return `${head}\n${text.join("\n")}\n\n${shown}: ${counted(jobs, "job fails", "jobs fail")}.\nTo list or control a group, for example the first:\n  ${commandFor(first)}\n`;
}

function wordsOf({ error, reason, example }: FailingGroup): string {
  const line = printable(`    ${reason === "" ? error : `${error}: ${reason}`}`);
  return `${shortened(line, WIDTH_MAX)}\n${shortened(printable(`    for example ${example}`), WIDTH_MAX)}`;
}

function commandFor(group: FailingGroup): string {
  // Without a port, the filter would match the host on any port.
  const exactly = group.host === null || /:\d+$/.test(group.host) ? group.host : `${group.host}:`;
  const host = quoted(printable(exactly ?? "-"));
  return `tandem jobs retry --error ${group.class} --side ${group.side ?? "-"} --host ${host}`;
}

/** Quotes an argument for a shell. */
function quoted(text: string): string {
  return /^[\w.:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Formats a time to the minute: `2026-11-23 13:54`. */
function minutes(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

function shortened(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax - 1)}…`;
}
