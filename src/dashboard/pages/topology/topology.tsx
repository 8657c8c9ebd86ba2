/** The databases between which jobs copy, and loops of such copies. */
import type { Topology, TopologyEdge } from "../../../contract/index.ts";
import { client } from "../../api/request.ts";
import type { Query } from "../../api/types.ts";
import { useIdleFeed, useRefresh } from "../../base/context.ts";
import { formatCount, formatNumber } from "../../base/format.ts";
import { goTo } from "../../base/location.ts";
import { useLoaded } from "../../base/use-loaded.ts";
import { linkTo } from "../../base/view.ts";
import { FilterField } from "../../components/filter-field.tsx";
import { Cell, type Column, Table } from "../../components/table.tsx";
import { Ends, Foreign, JobLink, Lag, Problem, StateBadge } from "../../components/text.tsx";

const REFRESH_MS = 15_000;
/** Maximum number of rows. A longer page would be slow, because it has no virtual scrolling. */
const ROWS_MAX = 500;

const COLUMNS: readonly Column[] = [
  { name: "From" },
  { name: "To" },
  { name: "State" },
  { name: "Lag", isNumber: true },
  { name: "Failing", isNumber: true },
  { name: "Jobs" },
];

/** Filters that the page offers. The page's address can contain any filter of the list of jobs. */
const FILTERS = [
  ["source", "Source"],
  ["target", "Target"],
] as const;

export function TopologyPage({ query }: { query: Query }) {
  const { value, error, reload } = useLoaded(
    (signal) => client.jobs.topology(query, { signal }),
    JSON.stringify(query),
  );
  useIdleFeed(reload);
  useRefresh(reload, REFRESH_MS);
  const change = (name: string, text: string) => {
    const kept = Object.entries({ ...query, [name]: text }).filter(([, given]) => given !== "");
    goTo(linkTo(["topology"], Object.fromEntries(kept)));
  };
  return (
    <>
      <div class="page-head">
        <h1>Topology</h1>
        {value !== undefined && (
          <span class="section-note">
            {formatCount(value.databases.length, "database")}, {formatCount(value.jobs, "job")}
          </span>
        )}
      </div>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        {FILTERS.map(([name, label]) => (
          <FilterField
            key={name}
            label={label}
            value={query[name] ?? ""}
            onCommit={(text) => change(name, text)}
          />
        ))}
      </form>
      <Problem error={error} />
      {value !== undefined && <Edges topology={value} />}
    </>
  );
}

function Edges({ topology: { edges, loops, truncated, databases } }: { topology: Topology }) {
  if (edges.length === 0) return <p class="section-note">No jobs match.</p>;
  const isCut = truncated || edges.length > ROWS_MAX;
  const hosts = new Map(databases.map(({ name, host }) => [name, host]));
  return (
    <>
      {loops.length > 0 && (
        <section class="panel" aria-labelledby="loops-title">
          <h2 id="loops-title">Loops</h2>
          <ul>
            {loops.map((loop) => (
              <li key={loop.join()}>
                <Foreign text={loop.join(loop.length === 2 ? " ⇄ " : ", ")} />
                {loop.length === 1 && " copies to itself"}
              </li>
            ))}
          </ul>
        </section>
      )}
      <Table label="Copies" columns={COLUMNS}>
        {edges.slice(0, ROWS_MAX).map((edge) => (
          <Row key={JSON.stringify([edge.source, edge.target])} edge={edge} hosts={hosts} />
        ))}
      </Table>
      {isCut && (
        <p class="section-note">Not all jobs are shown. Narrow the list with the filters.</p>
      )}
    </>
  );
}

function Row({ edge, hosts }: { edge: TopologyEdge; hosts: ReadonlyMap<string, string | null> }) {
  const { source, target, state, failing, jobs, names } = edge;
  const [name] = names;
  const shown = { ...edge, failing: failing > 0, paused: false, parked: false };
  return (
    <tr>
      <th scope="row">
        <Ends text={source} />
      </th>
      <Cell name="To" isWide>
        <Ends text={target} />
      </Cell>
      <Cell name="State">
        <StateBadge job={shown} />
      </Cell>
      <Cell name="Lag" isNumber>
        <Lag job={{ lag_sec: edge.lag_sec, paused: false, state }} />
      </Cell>
      <Cell name="Failing" isNumber>
        {formatNumber(failing)}
      </Cell>
      <Cell name="Jobs">
        {jobs === 1 && name !== undefined ? (
          <JobLink job={{ name }} />
        ) : (
          <a
            href={linkTo(["jobs"], {
              ...placeOf("source", source, hosts),
              ...placeOf("target", target, hosts),
            })}
          >
            {formatCount(jobs, "job")}
          </a>
        )}
      </Cell>
    </tr>
  );
}

/** Returns the query that lists the jobs of a database. */
function placeOf(
  side: "source" | "target",
  name: string,
  hosts: ReadonlyMap<string, string | null>,
): Query {
  const host = hosts.get(name) ?? null;
  if (host === null) return { [side]: name };
  return { [side]: host, [`${side}_database`]: name.slice(name.lastIndexOf("/") + 1) };
}
