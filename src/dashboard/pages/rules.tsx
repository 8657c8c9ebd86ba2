/** The rules, with the state of their databases. */
import type { Rule, RuleStatus } from "../../contract/index.ts";
import { client } from "../api/request.ts";
import type { Query } from "../api/types.ts";
import { useIdleFeed, useRefresh, useSurroundings } from "../base/context.ts";
import { formatCount, formatDuration, formatNumber } from "../base/format.ts";
import { addressOfSide } from "../base/rule-fields.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { Cell, type Column, Table } from "../components/table.tsx";
import { Foreign, Problem, Proven } from "../components/text.tsx";

const REFRESH_MS = 10_000;

const COLUMNS: readonly Column[] = [
  { name: "Rule" },
  { name: "Source → target" },
  { name: "Databases", isNumber: true },
  { name: "Jobs", isNumber: true },
  { name: "Failing", isNumber: true },
  { name: "Failed documents", isNumber: true },
  { name: "Parked", isNumber: true },
  { name: "Longest known lag", isNumber: true },
  { name: "Trouble" },
];

export function RulesPage({ query: { bookmark } }: { query: Query }) {
  const { session } = useSurroundings();
  const { value, error, reload } = useLoaded(
    (signal) => client.rules.list({ bookmark }, { signal }).page(),
    bookmark ?? "",
  );
  useIdleFeed(reload);
  useRefresh(reload, REFRESH_MS);
  return (
    <>
      <div class="page-head">
        <h1>Rules</h1>
        {value !== undefined && (
          <span class="section-note">{formatCount(value.total_rows, "rule")}</span>
        )}
        {session.changes && (
          <a class="button" href={linkTo(["new-rule"])}>
            New rule
          </a>
        )}
      </div>
      <Problem error={error} />
      {value?.total_rows === 0 && (
        <p class="section-note">
          A rule creates a replication for each database with a matching name on a server.
        </p>
      )}
      {value !== undefined && value.rules.length > 0 && (
        <Table label="Rules" columns={COLUMNS}>
          {value.rules.map((rule) => (
            <Row key={rule.name} rule={rule} />
          ))}
        </Table>
      )}
      <nav class="commands" aria-label="Pages of rules">
        {bookmark !== undefined && (
          <a class="button" href={linkTo(["rules"])}>
            First rules
          </a>
        )}
        {value?.bookmark != null && (
          <a class="button" href={linkTo(["rules"], { bookmark: value.bookmark })}>
            Next rules
          </a>
        )}
      </nav>
    </>
  );
}

function Row({ rule }: { rule: Rule }) {
  const { name, status } = rule;
  return (
    <tr>
      <th scope="row">
        <a href={linkTo(["rules", name])}>
          <Foreign text={name} />
        </a>
      </th>
      <Cell name="Source → target" isWide className="way">
        <Way rule={rule} />
      </Cell>
      <Cell name="Databases" isNumber>
        {status.databases === null ? "not listed yet" : formatNumber(status.databases)}
      </Cell>
      <Cell name="Jobs" isNumber>
        <Count rule={name} count={status.jobs} />
      </Cell>
      <Cell name="Failing" isNumber className={status.failing > 0 ? "bad" : ""}>
        <Count rule={name} count={status.failing} filter={{ failing: "true" }} />
      </Cell>
      <Cell name="Failed documents" isNumber>
        <Count rule={name} count={status.left_behind} filter={{ left_behind: "true" }} />
      </Cell>
      <Cell name="Parked" isNumber>
        <Count rule={name} count={status.parked} filter={{ parked: "true" }} />
      </Cell>
      <Cell name="Longest known lag" isNumber>
        <LongestLag status={status} />
      </Cell>
      <Cell name="Trouble" isWide>
        {troubleOf(rule)}
      </Cell>
    </tr>
  );
}

/**
 * The longest lag of the rule's jobs. Unknown until a job has run, because a lag of zero proves
 * nothing before the first run.
 */
export function LongestLag({ status: { lag_sec: lagSec, states } }: { status: RuleStatus }) {
  const hasRun = lagSec > 0 || states.running + states.completed > 0;
  return <Proven value={hasRun ? formatDuration(lagSec) : null} />;
}

/** Source and target, as in the rule. */
export function Way({ rule }: { rule: Rule }) {
  const [source, target] = [addressOfSide(rule, "source"), addressOfSide(rule, "target")];
  if (source === undefined || target === undefined) {
    return <span class="nothing">removed; its jobs are being cancelled</span>;
  }
  return (
    <>
      <Foreign text={source} /> {rule.pair === true ? "⇄" : "→"} <Foreign text={target} />
    </>
  );
}

/** Number of the rule's jobs that match the filter, as a link to the list of these jobs. */
export function Count({
  rule,
  count,
  filter = {},
}: {
  rule: string;
  count: number;
  filter?: Query;
}) {
  if (count === 0) return <>0</>;
  return <a href={linkTo(["jobs"], { rule, ...filter })}>{formatNumber(count)}</a>;
}

function troubleOf({ status: { last_error: failure, cannot_copy: faultCount } }: Rule) {
  const faults = faultCount > 0 && `${formatCount(faultCount, "database")} cannot be copied`;
  if (failure === null) return faults || "";
  return (
    <>
      <Foreign className="bad" text={`${failure.error}: ${failure.reason}`} />
      {faults && ` ${faults}`}
    </>
  );
}
