/** Failed documents of a job, by reason. One, some or all of them can be retried. */
import { useState } from "preact/hooks";
import type { RetriedDocuments } from "../../client/index.ts";
import type { DocumentFailure, FailureCount } from "../../contract/index.ts";
import { FAILURE_ROWS } from "../api/one-job.ts";
import { skipWithin } from "../api/pages.ts";
import { client } from "../api/request.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount, formatNumber } from "../base/format.ts";
import { useLoaded } from "../base/use-loaded.ts";
import type { Hand } from "../base/use-steady.ts";
import { Pager } from "../components/pager.tsx";
import { Cell, type Column, Table } from "../components/table.tsx";
import { Foreign, Moment, Problem } from "../components/text.tsx";

const COLUMNS: readonly Column[] = [
  { name: "Document" },
  { name: "Reason" },
  { name: "Revision" },
  { name: "Tries", isNumber: true },
  { name: "Last", isNumber: true },
];

export function JobFailures({
  name,
  isPaused,
  total,
  counts,
  hand,
  reload,
}: {
  name: string;
  isPaused: boolean;
  total: number;
  counts: readonly FailureCount[];
  /** Tracks whether the user is interacting with the list. */
  hand: Hand;
  reload: () => void;
}) {
  const { session, announce } = useSurroundings();
  const [wantedSkip, setSkip] = useState(0);
  const skip = skipWithin(wantedSkip, FAILURE_ROWS, total);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isTrying, setIsTrying] = useState(false);
  const [round, setRound] = useState(0);
  const [error, setError] = useState<unknown>();
  const page = useLoaded(
    (signal) => client.jobs.failures(name, { skip, limit: FAILURE_ROWS }, { signal }).page(),
    `${name} ${skip} ${total} ${round}`,
  );
  const retry = async (ids?: readonly string[]) => {
    setIsTrying(true);
    setError(undefined);
    try {
      announce(retriedText(await client.jobs.retryFailures(name, ids), isPaused));
      setSelected(new Set());
      setRound(round + 1);
      reload();
    } catch (failure) {
      setError(failure);
    } finally {
      setIsTrying(false);
    }
  };
  const toggle = (id: string, isSelected: boolean) => {
    const ids = new Set(selected);
    if (isSelected) ids.add(id);
    else ids.delete(id);
    setSelected(ids);
  };
  const turn = (rows: number) => {
    setSelected(new Set());
    setSkip(rows);
  };
  const rows = page.value?.failures ?? [];
  return (
    <section class="panel" aria-labelledby="failures-title" {...hand.handlers}>
      <div class="page-head">
        <h2 id="failures-title">{formatCount(total, "failed document")}</h2>
        {session.changes && (
          <>
            <button type="button" disabled={isTrying} onClick={() => void retry()}>
              {isTrying ? "Trying…" : "Retry all documents"}
            </button>
            <button
              type="button"
              disabled={isTrying || selected.size === 0}
              onClick={() => void retry([...selected])}
            >
              {selected.size === 0
                ? "Retry selected documents"
                : `Retry ${formatCount(selected.size, "document")}`}
            </button>
          </>
        )}
      </div>
      <Problem error={error ?? page.error} />
      <ul class="counts">
        {counts.map(({ phase, status, error: word, count }) => (
          <li key={`${phase} ${status} ${word}`}>
            <strong>{formatNumber(count)}</strong> <Foreign text={word} /> ({phase}
            {status !== null && `, ${status}`})
          </li>
        ))}
      </ul>
      <Table
        label="Documents"
        columns={session.changes ? [{ name: "Selected", isHidden: true }, ...COLUMNS] : COLUMNS}
      >
        {rows.map((row) => (
          <Row
            key={`${row.id} ${row.rev}`}
            row={row}
            isSelected={selected.has(row.id)}
            onToggle={session.changes ? (isSelected) => toggle(row.id, isSelected) : undefined}
          />
        ))}
      </Table>
      <Pager label="documents" skip={skip} rows={FAILURE_ROWS} total={total} onSkip={turn} />
    </section>
  );
}

function retriedText({ isDone, tried, total_rows: left }: RetriedDocuments, isPaused: boolean) {
  const leftText = `${formatNumber(left)} still failing`;
  if (isDone) return `Retried ${formatCount(tried, "document")}; ${leftText}`;
  return isPaused
    ? `The job is paused and will retry the documents once it is resumed; ${leftText}`
    : `Retry in progress; ${leftText}`;
}

function Row({
  row: { id, rev, reason, tries, last },
  isSelected,
  onToggle,
}: {
  row: DocumentFailure;
  isSelected: boolean;
  /** Called when the row is selected or deselected; undefined for read-only users. */
  onToggle: ((isSelected: boolean) => void) | undefined;
}) {
  return (
    <tr>
      {onToggle !== undefined && (
        <Cell name="" className="cell-select">
          <input
            type="checkbox"
            aria-label={`Select ${id}`}
            checked={isSelected}
            onChange={({ currentTarget }) => onToggle(currentTarget.checked)}
          />
        </Cell>
      )}
      <th scope="row">
        <Foreign text={id} />
      </th>
      <Cell name="Reason" isWide>
        <Foreign text={reason} />
      </Cell>
      <Cell name="Revision" isWide className="revision">
        <Foreign text={rev} />
      </Cell>
      <Cell name="Tries" isNumber>
        {formatNumber(tries)}
      </Cell>
      <Cell name="Last" isNumber>
        <Moment time={last} />
      </Cell>
    </tr>
  );
}
