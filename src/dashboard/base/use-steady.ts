/** Rows that stay where they are while a hand is at them: else a click could meet the row that has come into the place of another. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { steadyRows } from "./steady-rows.ts";

/** A hand that has rested for so long is at work no more. */
const REST_MS = 3_000;

export interface Hand {
  /** Whether a pointer or the keyboard is in use there. */
  readonly isAtWork: boolean;
  /** For the element around the rows. */
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

/** The rows in their order; while a hand is at work, in the order in which they were. */
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

/** The value; while a hand is at work, as it was before. */
export function useSteady<Value>(value: Value, { isAtWork }: Hand): Value {
  const shown = useRef(value);
  if (!isAtWork) shown.current = value;
  return shown.current;
}
