/** The rows of a long list that are in sight. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useReducer, useState } from "preact/hooks";

/** Rows above and below those in sight, so that scrolling shows no holes. */
const OVERSCAN = 12;

export interface VirtualRow {
  readonly index: number;
  /** In pixels from the top of the list. */
  readonly start: number;
}

export function useVirtualRows(
  scroller: RefObject<HTMLElement | null>,
  rowCount: number,
  rowHeight: number,
): { readonly rows: readonly VirtualRow[]; readonly height: number } {
  const [, draw] = useReducer((round: number) => round + 1, 0);
  const options = {
    count: rowCount,
    estimateSize: () => rowHeight,
    getScrollElement: () => scroller.current,
    overscan: OVERSCAN,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => draw(undefined),
  };
  const [virtualizer] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtualizer.setOptions(options);
  useEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  // Another height of rows moves all of them.
  useLayoutEffect(() => virtualizer.measure(), [virtualizer, rowHeight]);
  return { rows: virtualizer.getVirtualItems(), height: virtualizer.getTotalSize() };
}
