/** A short table. Where the window is narrow, each row is a card: its title, and cells with their names. */
import type { ComponentChildren } from "preact";
import { formatNumber } from "../base/format.ts";
import type { Hand } from "../base/use-steady.ts";

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
  hand,
  children,
}: {
  label: string;
  columns: readonly Column[];
  /** Told of the hand at the rows, where they may change their places by themselves. */
  hand?: Hand;
  /** The rows: a `th` with the title of the row, and `Cell`s. */
  children: ComponentChildren;
}) {
  return (
    // It can be scrolled by keys as well.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to take the focus
    <section class="wide" tabIndex={0} aria-label={label} {...hand?.handlers}>
      <table class="plain">
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

export function Cell({
  name,
  isNumber = false,
  isWide = false,
  className = "",
  children,
}: {
  /** Shown where the row is a card; empty for one that says by itself what it is. */
  name: string;
  isNumber?: boolean;
  /** Takes the whole width of a card. */
  isWide?: boolean;
  className?: string;
  children?: ComponentChildren;
}) {
  const classes = [isNumber ? "number" : "", isWide ? "wide-cell" : "", className];
  return (
    <td class={classes.filter((one) => one !== "").join(" ")} data-name={name}>
      {children}
    </td>
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
