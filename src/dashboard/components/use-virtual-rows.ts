/** Virtual scrolling: the visible rows of a long list. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useReducer, useState } from "preact/hooks";

/** Number of rows rendered above and below the visible rows, so that scrolling shows no gaps. */
const OVERSCAN = 12;

export interface VirtualRow {
  readonly index: number;
  /** Start of the row, in pixels from the top of the list. */
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
  // A different row height moves all rows, so they are measured again.
  useLayoutEffect(() => virtualizer.measure(), [virtualizer, rowHeight]);
  return { rows: virtualizer.getVirtualItems(), height: virtualizer.getTotalSize() };
}
