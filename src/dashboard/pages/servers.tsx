/** The servers that jobs name, and the groups that share the slots. */
import { readServers } from "../api/servers.ts";
import type { EndpointRow, GroupRow, Query } from "../api/types.ts";
import { useFeed, useSurroundings } from "../base/context.ts";
import { formatCount, formatDuration, formatNumber } from "../base/format.ts";
import { useInterval, useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { type Column, Figure, Table } from "../components/table.tsx";
import { Foreign, Moment, Problem } from "../components/text.tsx";

const REFRESH_MS = 5_000;

const ENDPOINT_COLUMNS: readonly Column[] = [
  { name: "Server" },
  { name: "Fails there" },
  { name: "Reached" },
  { name: "Jobs from it", isNumber: true },
  { name: "Jobs to it", isNumber: true },
  { name: "Requests", isNumber: true },
  { name: "Latency", isNumber: true },
  { name: "Slowed down by", isNumber: true },
];

const GROUP_COLUMNS: readonly Column[] = [
  { name: "Group" },
  { name: "Running", isNumber: true },
  { name: "Waiting", isNumber: true },
  { name: "Ended", isNumber: true },
  { name: "Longest wait", isNumber: true },
  { name: "Shares", isNumber: true },
  { name: "Usage", isNumber: true },
];

export function ServersPage() {
  const { isPaused } = useSurroundings();
  const { value, error, reload } = useLoaded(readServers, "servers");
  // Says whether the connection stands; the figures have no events.
  useFeed({}, { event: () => {}, gap: reload });
  useInterval(() => {
    if (!isPaused) reload();
  }, REFRESH_MS);
  return (
    <>
      <div class="page-head">
        <h1>Servers</h1>
        {value !== undefined && (
          <Shown total={value.endpointTotal} shown={value.endpoints.length} one="server" />
        )}
      </div>
      <Problem error={error} />
      {value !== undefined && (
        <>
          {value.endpointTotal > 0 && (
            <Table label="Servers" columns={ENDPOINT_COLUMNS}>
              {value.endpoints.map((endpoint) => (
                <Endpoint key={endpoint.host} endpoint={endpoint} />
              ))}
            </Table>
          )}
          <div class="page-head">
            <h2>Groups</h2>
            <Shown total={value.groupTotal} shown={value.groups.length} one="group" />
          </div>
          {value.groupTotal > 0 && (
            <Table label="Groups" columns={GROUP_COLUMNS}>
              {value.groups.map((group) => (
                <Group key={group.name} group={group} />
              ))}
            </Table>
          )}
        </>
      )}
    </>
  );
}

function Shown({ total, shown, one }: { total: number; shown: number; one: string }) {
  return (
    <span class="section-note">
      {formatCount(total, one)}
      {total > shown && `, of which the first ${formatNumber(shown)} are shown`}
    </span>
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

function Group({ group }: { group: GroupRow }) {
  const { name, jobs, shares } = group;
  // Jobs of requests have no database to find them by.
  const isDatabase = !name.startsWith("user:");
  return (
    <tr>
      <th scope="row">
        {isDatabase ? (
          <a href={linkTo(["jobs"], { database: name })}>
            <Foreign text={name} />
          </a>
        ) : (
          <Foreign text={name} />
        )}
      </th>
      <td class="number">{formatNumber(jobs.running)}</td>
      <td class="number">{formatNumber(jobs.pending)}</td>
      <td class="number">{formatNumber(jobs.ended)}</td>
      <td class="number">{formatDuration(group.longest_wait_sec)}</td>
      <td class="number">{formatNumber(shares)}</td>
      <td class="number">{formatDuration(group.usage_sec)}</td>
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
