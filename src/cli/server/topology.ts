/** Formats the graph of databases that jobs copy from and to. */
import type { Topology } from "../../contract/index.ts";
import { counted } from "../terminal/counted.ts";
import { printable, table } from "../terminal/table.ts";
import { columnsOf, wrapped } from "../terminal/width.ts";
import { answerWith } from "./answers.ts";

export function printTopology(answer: unknown, columns = columnsOf()): string {
  const { edges, loops, jobs, truncated } = answerWith<Topology>(answer, {
    edges: "array",
    loops: "array",
  });
  const rows = edges.map(({ source, target, state, lag_sec: lag, failing, jobs: count }) => [
    source,
    target,
    state,
    lag === null ? "-" : `${lag} s`,
    String(count),
    failing === 0 ? "-" : String(failing),
  ]);
  const heading = ["FROM", "TO", "STATE", "LAG", "JOBS", "FAILING"];
  const listed = table([heading, ...rows], { columns, soft: [0, 1] });
  const found = loops.flatMap((loop) => wrapped(printable(loopText(loop)), columns - 2));
  const cycles =
    found.length === 0 ? "" : `\nLoops:\n${found.map((line) => `  ${line}\n`).join("")}`;
  const more = truncated ? "\nNot all jobs are shown; narrow the list with filters.\n" : "";
  return `${listed}${cycles}${more}\n${counted(jobs, "job")}.\n`;
}

function loopText(loop: readonly string[]): string {
  if (loop.length === 1) return `${loop[0]} copies to itself`;
  return loop.length === 2 ? loop.join(" <-> ") : `between ${loop.join(", ")}`;
}
