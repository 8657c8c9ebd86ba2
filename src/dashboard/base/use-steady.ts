/**
 * Keeps rows in place while the user interacts with them. Otherwise a click could hit a row that
 * has just moved there.
 */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { steadyRows } from "./steady-rows.ts";

/** Idle time after which an interaction counts as ended. */
const REST_MS = 3_000;

export interface Hand {
  /** Whether the user is pointing at the rows or using the keyboard in them. */
  readonly isAtWork: boolean;
  /** Handlers for the element around the rows. */
  readonly handlers: {
    readonly onPointerMove: () => void;
    readonly onFocusIn: () => void;
    readonly onKeyDown: () => void;
  };
}

export function useHand(): Hand {
  const [isAtWork, setIsAtWork] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const move = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setIsAtWork(false), REST_MS);
    setIsAtWork(true);
  }, []);
  return { isAtWork, handlers: { onPointerMove: move, onFocusIn: move, onKeyDown: move } };
}

/** Returns the rows in order. While the user interacts with them, keeps their previous order. */
export function useSteadyRows<Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
  { isAtWork }: Hand,
): readonly Row[] {
  const before = useRef(rows);
  const shown = useMemo(
    () => (isAtWork ? steadyRows(before.current, rows, keyOf) : rows),
    [rows, keyOf, isAtWork],
  );
  before.current = shown;
  return shown;
}

/** Returns the current value or, during an interaction, the previous one. */
export function useSteady<Value>(value: Value, { isAtWork }: Hand): Value {
  const shown = useRef(value);
  if (!isAtWork) shown.current = value;
  return shown.current;
}
