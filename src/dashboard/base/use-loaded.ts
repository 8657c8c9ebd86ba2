/** Loads data from the node. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<Value> {
  /** The last value received; undefined until the first value. */
  readonly value: Value | undefined;
  /** Error of the last attempt, if it failed. */
  readonly error: unknown;
  readonly reload: () => void;
}

/**
 * Loads a value on the first render, when `key` changes, and on `reload`. Outdated requests are
 * aborted, and their results are never shown.
 */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  key: string,
): Loaded<Value> {
  const [state, setState] = useState<{
    readonly key: string;
    readonly value?: Value | undefined;
    readonly error?: unknown;
  }>({ key });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const leaving = new AbortController();
    latest.current(leaving.signal).then(
      (value) => {
        if (!leaving.signal.aborted) setState({ key, value });
      },
      (error: unknown) => {
        if (leaving.signal.aborted) return;
        setState((before) => ({
          key,
          value: before.key === key ? before.value : undefined,
          error,
        }));
      },
    );
    return () => leaving.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const isOfKey = state.key === key;
  return {
    value: isOfKey ? state.value : undefined,
    error: isOfKey ? state.error : undefined,
    reload,
  };
}

/** Calls `act` at an interval while the page is visible. */
export function useInterval(act: () => void, intervalMs: number): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") latest.current();
    }, intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
}

/**
 * Returns a throttled function. It calls `act` once, `waitMs` after the first of a series of calls.
 */
export function useSoon(act: () => void, waitMs: number): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, waitMs);
  }, [waitMs]);
}
