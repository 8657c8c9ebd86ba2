/** A short table. In a narrow window, each row is a card with a title and labelled cells. */
import type { ComponentChildren } from "preact";
import { formatNumber } from "../base/format.ts";
import type { Hand } from "../base/use-steady.ts";
import { Proven } from "./text.tsx";

export interface Column {
  readonly name: string;
  /** Whether the column is right-aligned. */
  readonly isNumber?: boolean;
  /** Whether the header is hidden, because the cells are self-explanatory. */
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
  /** Handlers that notice interaction with the rows. Absent if rows do not move. */
  hand?: Hand;
  /** The rows: a `th` with the title, and `Cell`s. */
  children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls only a focused region
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
  /** Label in a card; empty if the cell is self-explanatory. */
  name: string;
  isNumber?: boolean;
  /** Whether the cell takes the full width of a card. */
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

/** A number, or *Unknown*. */
export function Figure({
  value,
  format = formatNumber,
}: {
  value: number | null;
  format?: (value: number) => string;
}) {
  return <Proven value={value === null ? null : <span>{format(value)}</span>} />;
}
