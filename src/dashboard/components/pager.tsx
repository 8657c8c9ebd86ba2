/** Paging for lists with row numbers. */
import { formatNumber } from "../base/format.ts";

export function Pager({
  label,
  skip,
  rows,
  total,
  onSkip,
}: {
  /** Accessible label, which names the list. */
  label: string;
  /** Number of rows before the current page. */
  skip: number;
  /** Number of rows per page. */
  rows: number;
  total: number;
  onSkip: (skip: number) => void;
}) {
  if (total <= rows && skip === 0) return null;
  return (
    <nav class="commands" aria-label={`Pages of ${label}`}>
      <button type="button" disabled={skip === 0} onClick={() => onSkip(Math.max(0, skip - rows))}>
        Before
      </button>
      <span>
        {formatNumber(Math.min(total, skip + 1))}–{formatNumber(Math.min(total, skip + rows))} of{" "}
        {formatNumber(total)}
      </span>
      <button type="button" disabled={skip + rows >= total} onClick={() => onSkip(skip + rows)}>
        Next
      </button>
    </nav>
  );
}
