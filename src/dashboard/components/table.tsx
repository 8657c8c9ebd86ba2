/** A short table, which scrolls by itself where the window is narrow. */
import type { ComponentChildren } from "preact";
import { formatNumber } from "../base/format.ts";

export interface Column {
  readonly name: string;
  /** Figures stand at the right. */
  readonly isNumber?: boolean;
  /** The rows say by themselves what it is. */
  readonly isHidden?: boolean;
}

export function Table({
  label,
  columns,
  isStacked = false,
  children,
}: {
  label: string;
  columns: readonly Column[];
  /** Where the window is narrow, the cells of a row stand below each other, and nothing scrolls sideways. */
  isStacked?: boolean;
  /** The rows. */
  children: ComponentChildren;
}) {
  return (
    // It can be scrolled by keys as well.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to take the focus
    <section class="wide" tabIndex={0} aria-label={label}>
      <table class={isStacked ? "plain stacked" : "plain"}>
        <thead>
          <tr>
            {columns.map(({ name, isNumber, isHidden }) => (
              <th key={name} scope="col" class={isNumber ? "number" : ""}>
                {isHidden ? <span class="hidden">{name}</span> : name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

/** A figure that may be unknown. */
export function Figure({
  value,
  format = formatNumber,
}: {
  value: number | null;
  format?: (value: number) => string;
}) {
  return value === null ? <span class="nothing">–</span> : <span>{format(value)}</span>;
}
