/** Servers used by jobs: failures, response times and budgets. */
import { useState } from "preact/hooks";
import type { BudgetRow, EndpointRow } from "../../contract/index.ts";
import type { Query } from "../api/types.ts";
import { budgetText } from "../base/budget-text.ts";
import { useSurroundings } from "../base/context.ts";
import { formatNumber } from "../base/format.ts";
import { isReached } from "../base/job-figures.ts";
import { useHand, useSteadyRows } from "../base/use-steady.ts";
import { linkTo } from "../base/view.ts";
import { Cell, type Column, Figure, Table } from "../components/table.tsx";
import { Foreign, Moment, Proven } from "../components/text.tsx";
import { BudgetDialog } from "./budget-dialog.tsx";

const COLUMNS: readonly Column[] = [
  { name: "Server" },
  { name: "Failing jobs" },
  { name: "Reached" },
  { name: "Jobs copying from", isNumber: true },
  { name: "Jobs copying to", isNumber: true },
  { name: "Requests", isNumber: true },
  { name: "Latency", isNumber: true },
  { name: "Delay per request", isNumber: true },
  { name: "Budgets" },
];

interface Edited {
  readonly budget: BudgetRow;
  readonly isNew: boolean;
}

const keyOfRow = ({ host }: EndpointRow) => host;

export function Endpoints({
  rows,
  onChange,
}: {
  rows: readonly EndpointRow[];
  onChange: () => void;
}) {
  const { session } = useSurroundings();
  const [edited, setEdited] = useState<Edited>();
  const hand = useHand();
  const shown = useSteadyRows(rows, keyOfRow, hand);
  return (
    <>
      <Table label="Servers" columns={COLUMNS} hand={hand}>
        {shown.map((endpoint) => (
          <Row
            key={endpoint.host}
            endpoint={endpoint}
            onEdit={session.changes ? setEdited : undefined}
          />
        ))}
      </Table>
      <EditedBudget edited={edited} onEdit={setEdited} onChange={onChange} />
    </>
  );
}

/** Budgets of servers that no job currently uses. */
export function OtherBudgets({
  budgets,
  onChange,
}: {
  budgets: readonly BudgetRow[];
  onChange: () => void;
}) {
  const { session } = useSurroundings();
  const [edited, setEdited] = useState<Edited>();
  return (
    <section class="panel" aria-labelledby="other-budgets-title">
      <h2 id="other-budgets-title">Budgets of unused servers</h2>
      <ul>
        {budgets.map((budget) => (
          <BudgetLine
            key={budget.name}
            budget={budget}
            isNamed
            onEdit={session.changes ? setEdited : undefined}
          />
        ))}
      </ul>
      <EditedBudget edited={edited} onEdit={setEdited} onChange={onChange} />
    </section>
  );
}

function EditedBudget({
  edited,
  onEdit,
  onChange,
}: {
  edited: Edited | undefined;
  onEdit: (edited: Edited | undefined) => void;
  onChange: () => void;
}) {
  if (edited === undefined) return null;
  const close = (isDone: boolean) => {
    onEdit(undefined);
    if (isDone) onChange();
  };
  return <BudgetDialog {...edited} onClose={close} />;
}

function Row({
  endpoint,
  onEdit,
}: {
  endpoint: EndpointRow;
  /** Opens the dialog for a budget; absent for read-only users. */
  onEdit: ((edited: Edited) => void) | undefined;
}) {
  const { host, failing, outage, limiter_ms: limiterMs } = endpoint;
  const causes = Object.entries(failing);
  return (
    <tr>
      <th scope="row">
        <Foreign text={host} />
      </th>
      <Cell name="Failing jobs" isWide>
        {causes.length === 0 && <span class="nothing">–</span>}
        {causes.map(([error, count]) => (
          <a key={error} class="cause" href={linkTo(["jobs"], { error, host })}>
            {formatNumber(count)} {error.replaceAll("_", " ")}
          </a>
        ))}
      </Cell>
      <Cell name="Reached" className="unbroken">
        {outage === null ? (
          <Proven value={isReached(endpoint) && "yes"} />
        ) : (
          <>
            <span class="badge badge-failing">{outage.confirmed ? "no" : "unconfirmed"}</span> asked{" "}
            <Moment time={outage.probed} />
          </>
        )}
      </Cell>
      <Cell name="Jobs copying from" isNumber>
        <Count value={endpoint.source_jobs} query={{ source: host }} />
      </Cell>
      <Cell name="Jobs copying to" isNumber>
        <Count value={endpoint.target_jobs} query={{ target: host }} />
      </Cell>
      <Cell name="Requests" isNumber>
        {formatNumber(endpoint.requests)}
      </Cell>
      <Cell name="Latency" isNumber>
        <Figure value={endpoint.latency_ms} format={inMilliseconds} />
      </Cell>
      <Cell name="Delay per request" isNumber>
        {limiterMs === 0 ? <span class="nothing">–</span> : inMilliseconds(limiterMs)}
      </Cell>
      <Cell name="Budgets" isWide>
        <Budgets endpoint={endpoint} onEdit={onEdit} />
      </Cell>
    </tr>
  );
}

function Budgets({
  endpoint: { host, budgets },
  onEdit,
}: {
  endpoint: EndpointRow;
  onEdit: ((edited: Edited) => void) | undefined;
}) {
  const begun = budgets.some(({ name }) => name === host) ? `account@${host}` : host;
  return (
    <>
      {budgets.length === 0 && onEdit === undefined && <span class="nothing">–</span>}
      <ul>
        {budgets.map((budget) => (
          <BudgetLine
            key={budget.name}
            budget={budget}
            isNamed={budget.name !== host}
            onEdit={onEdit}
          />
        ))}
      </ul>
      {onEdit !== undefined && (
        <button
          type="button"
          class="quiet"
          aria-label={`Add a budget for ${host}`}
          onClick={() => onEdit({ budget: { name: begun, read: {}, write: {} }, isNew: true })}
        >
          Add
        </button>
      )}
    </>
  );
}

function BudgetLine({
  budget,
  isNamed,
  onEdit,
}: {
  budget: BudgetRow;
  /** Whether to show the account. */
  isNamed: boolean;
  /** Opens the dialog for a budget; absent for read-only users. */
  onEdit: ((edited: Edited) => void) | undefined;
}) {
  return (
    <li>
      {isNamed && (
        <>
          <Foreign text={budget.name} />:{" "}
        </>
      )}
      {budgetText(budget)}
      {onEdit !== undefined && (
        <button
          type="button"
          class="quiet"
          aria-label={`Edit the budget of ${budget.name}`}
          onClick={() => onEdit({ budget, isNew: false })}
        >
          Edit
        </button>
      )}
    </li>
  );
}

/** A number of jobs, which is a link to the list of these jobs. */
function Count({ value, query }: { value: number; query: Query }) {
  if (value === 0) return <>0</>;
  return <a href={linkTo(["jobs"], query)}>{formatNumber(value)}</a>;
}

function inMilliseconds(value: number): string {
  return `${formatNumber(value)} ms`;
}
