/** Topology of the jobs (`docs/api/jobs.md`). */
import {
  count,
  described,
  exactly,
  flag,
  listOf,
  nullable,
  number,
  oneOf,
  type Shape,
  text,
} from "./schema.ts";
import { JOB_STATES } from "./words.ts";

/** An edge: all jobs from one database to another. */
export const TopologyEdge = exactly({
  source: text,
  target: text,
  state: described(oneOf(JOB_STATES), "the most serious state of any of the jobs"),
  lag_sec: nullable(number, { description: "the longest known lag of the jobs" }),
  failing: described(count, "number of failing jobs"),
  jobs: described(count, "number of jobs"),
  names: described(listOf(text), "names of the first jobs"),
});
export type TopologyEdge = Shape<typeof TopologyEdge>;

export const Topology = exactly({
  jobs: described(count, "number of jobs included"),
  databases: listOf(
    exactly({
      name: described(text, "HOST/PATH, or the name of a database of this server"),
      host: nullable(text, { description: "null for a database of this server" }),
    }),
  ),
  edges: listOf(TopologyEdge),
  loops: described(listOf(listOf(text)), "databases that copy to each other"),
  truncated: described(flag, "some jobs are omitted; use a filter"),
});
export type Topology = Shape<typeof Topology>;
