/** The documents of a job that did not arrive, by reason, and their retry. */
import { useState } from "preact/hooks";
import { FAILURE_ROWS, readFailures, retryFailures } from "../api/one-job.ts";
import type { FailureCount } from "../api/types.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount, formatNumber } from "../base/format.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { type Column, Table } from "../components/table.tsx";
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
  total,
  counts,
  reload,
}: {
  name: string;
  total: number;
  counts: readonly FailureCount[];
  reload: () => void;
}) {
  const { session, announce } = useSurroundings();
  const [skip, setSkip] = useState(0);
  const [isTrying, setIsTrying] = useState(false);
  const [error, setError] = useState<unknown>();
  const page = useLoaded((signal) => readFailures(name, skip, signal), `${name} ${skip} ${total}`);
  const retry = async () => {
    setIsTrying(true);
    setError(undefined);
    try {
      const { tried, total_rows: left } = await retryFailures(name);
      announce(`Tried ${formatCount(tried, "document")}; ${formatNumber(left)} left behind`);
      reload();
    } catch (failure) {
      setError(failure);
    } finally {
      setIsTrying(false);
    }
  };
  return (
    <section class="panel" aria-labelledby="failures-title">
      <div class="page-head">
        <h2 id="failures-title">{formatCount(total, "document")} did not arrive</h2>
        {session.changes && (
          <button type="button" disabled={isTrying} onClick={() => void retry()}>
            {isTrying ? "Trying…" : "Retry all documents"}
          </button>
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
      <Table label="Documents" columns={COLUMNS}>
        {page.value?.map(({ id, rev, reason, tries, last }) => (
          <tr key={`${id} ${rev}`}>
            <th scope="row">
              <Foreign text={id} />
            </th>
            <td>
              <Foreign text={reason} />
            </td>
            <td>
              <Foreign text={rev} />
            </td>
            <td class="number">{formatNumber(tries)}</td>
            <td class="number">
              <Moment time={last} />
            </td>
          </tr>
        ))}
      </Table>
      {total > FAILURE_ROWS && (
        <div class="commands">
          <button
            type="button"
            disabled={skip === 0}
            onClick={() => setSkip(Math.max(0, skip - FAILURE_ROWS))}
          >
            Before
          </button>
          <span>
            {formatNumber(skip + 1)}–{formatNumber(Math.min(total, skip + FAILURE_ROWS))} of{" "}
            {formatNumber(total)}
          </span>
          <button
            type="button"
            disabled={skip + FAILURE_ROWS >= total}
            onClick={() => setSkip(skip + FAILURE_ROWS)}
          >
            Next
          </button>
        </div>
      )}
    </section>
  );
}
