/** The servers that jobs name, and the groups that share the slots. */
import { useState } from "preact/hooks";
import { PAGE_ROWS, readEndpoints, readGroups } from "../api/servers.ts";
import type { EndpointRow, Query } from "../api/types.ts";
import { useFeed, useSurroundings } from "../base/context.ts";
import { formatCount, formatNumber } from "../base/format.ts";
import { goTo } from "../base/location.ts";
import { useInterval, useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { Pager } from "../components/pager.tsx";
import { type Column, Figure, Table } from "../components/table.tsx";
import { Foreign, Moment, Problem } from "../components/text.tsx";
import { Groups } from "./groups.tsx";

const REFRESH_MS = 5_000;

const COLUMNS: readonly Column[] = [
  { name: "Server" },
  { name: "Fails there" },
  { name: "Reached" },
  { name: "Jobs from it", isNumber: true },
  { name: "Jobs to it", isNumber: true },
  { name: "Requests", isNumber: true },
  { name: "Latency", isNumber: true },
  { name: "Slowed down by", isNumber: true },
];

export function ServersPage({ query }: { query: Query }) {
  const { isPaused } = useSurroundings();
  const skip = Number(query.skip ?? 0) || 0;
  const [groupSkip, setGroupSkip] = useState(0);
  const endpoints = useLoaded((signal) => readEndpoints(skip, signal), `servers ${skip}`);
  const groups = useLoaded((signal) => readGroups(groupSkip, signal), `groups ${groupSkip}`);
  const reload = () => {
    endpoints.reload();
    groups.reload();
  };
  // Says whether the connection stands; the figures have no events.
  useFeed({}, { event: () => {}, gap: reload });
  useInterval(() => {
    if (!isPaused) reload();
  }, REFRESH_MS);
  return (
    <>
      <div class="page-head">
        <h1>Servers</h1>
        {endpoints.value !== undefined && (
          <span class="section-note">{formatCount(endpoints.value.total, "server")}</span>
        )}
      </div>
      <Problem error={endpoints.error ?? groups.error} />
      {endpoints.value !== undefined && endpoints.value.total > 0 && (
        <>
          <Table label="Servers" columns={COLUMNS}>
            {endpoints.value.rows.map((endpoint) => (
              <Endpoint key={endpoint.host} endpoint={endpoint} />
            ))}
          </Table>
          <Pager
            label="servers"
            skip={skip}
            rows={PAGE_ROWS}
            total={endpoints.value.total}
            onSkip={(rows) => goTo(linkTo(["servers"], rows === 0 ? {} : { skip: String(rows) }))}
          />
        </>
      )}
      {groups.value !== undefined && (
        <>
          <Groups page={groups.value} onChange={groups.reload} />
          <Pager
            label="groups"
            skip={groupSkip}
            rows={PAGE_ROWS}
            total={groups.value.total}
            onSkip={setGroupSkip}
          />
        </>
      )}
    </>
  );
}

function Endpoint({ endpoint }: { endpoint: EndpointRow }) {
  const { host, failing, outage, limiter_ms: limiterMs } = endpoint;
  const causes = Object.entries(failing);
  return (
    <tr>
      <th scope="row">
        <Foreign text={host} />
      </th>
      <td>
        {causes.length === 0 && <span class="nothing">–</span>}
        {causes.map(([error, count]) => (
          <a key={error} class="cause" href={linkTo(["jobs"], { error, host })}>
            {formatNumber(count)} {error.replaceAll("_", " ")}
          </a>
        ))}
      </td>
      <td class="unbroken">
        {outage === null ? (
          "yes"
        ) : (
          <>
            <span class="badge badge-failing">{outage.confirmed ? "no" : "not sure"}</span> asked{" "}
            <Moment time={outage.probed} />
          </>
        )}
      </td>
      <td class="number">
        <Count value={endpoint.source_jobs} query={{ source: host }} />
      </td>
      <td class="number">
        <Count value={endpoint.target_jobs} query={{ target: host }} />
      </td>
      <td class="number">{formatNumber(endpoint.requests)}</td>
      <td class="number">
        <Figure value={endpoint.latency_ms} format={inMilliseconds} />
      </td>
      <td class="number">
        <Figure value={limiterMs === 0 ? null : limiterMs} format={inMilliseconds} />
      </td>
    </tr>
  );
}

/** A number of jobs that leads to them. */
function Count({ value, query }: { value: number; query: Query }) {
  if (value === 0) return <>0</>;
  return <a href={linkTo(["jobs"], query)}>{formatNumber(value)}</a>;
}

function inMilliseconds(value: number): string {
  return `${formatNumber(value)} ms`;
}
