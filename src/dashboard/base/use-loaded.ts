/** What a component reads from the node. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<Value> {
  /** The last that came; undefined before the first. */
  readonly value: Value | undefined;
  /** Why the last attempt failed; undefined when it did not. */
  readonly error: unknown;
  readonly reload: () => void;
}

/** Loads now, when `key` changes, and on `reload`. What is out of date is aborted, and never shown. */
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

/** Calls `act` at this interval, while the page is shown. */
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

/** A function that calls `act` soon, and once for all calls until then. */
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
