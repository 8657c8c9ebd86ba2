/** The jobs of a view: pages as they are needed, and changes as they happen. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { JobEvent } from "../api/event-feed.ts";
import { filterPart, readJobs } from "../api/jobs.ts";
import type { Job, Query } from "../api/types.ts";
import { useFeed } from "../base/context.ts";

interface ListState {
  readonly key: string;
  readonly jobs: readonly Job[];
  /** Undefined: the node does not say. */
  readonly total: number | undefined;
  /** Where the next page begins; undefined: there is none. */
  readonly bookmark: string | undefined;
  readonly isRead: boolean;
  readonly error: unknown;
  /** Jobs that have come into the view since it was read. */
  readonly newCount: number;
}

const EMPTY = {
  jobs: [],
  total: undefined,
  bookmark: undefined,
  isRead: false,
  error: undefined,
  newCount: 0,
};

export interface JobList extends ListState {
  readonly isLoading: boolean;
  /** Reads the next page, if there is one and none is on its way. */
  readonly more: () => void;
  readonly reload: () => void;
}

export function useJobList(query: Query): JobList {
  const key = JSON.stringify(query);
  const [state, setState] = useState<ListState>({ ...EMPTY, key });
  const [isLoading, setIsLoading] = useState(false);
  /** Where the next page begins. An effect of an older drawing must not read a page twice. */
  const next = useRef<string | undefined>(undefined);
  const loading = useRef<AbortController | undefined>(undefined);
  const load = useCallback(
    async (bookmark: string | undefined) => {
      loading.current?.abort();
      const own = new AbortController();
      loading.current = own;
      setIsLoading(true);
      try {
        const page = await readJobs(JSON.parse(key) as Query, bookmark, own.signal);
        if (own.signal.aborted) return;
        next.current = page.bookmark === null ? undefined : decodeURIComponent(page.bookmark);
        const following = next.current;
        setState((before) => ({
          key,
          jobs: bookmark === undefined ? page.jobs : [...before.jobs, ...page.jobs],
          total: page.total_rows ?? undefined,
          bookmark: following,
          isRead: true,
          error: undefined,
          newCount: bookmark === undefined ? 0 : before.newCount,
        }));
      } catch (error) {
        if (!own.signal.aborted) setState((before) => ({ ...before, key, isRead: true, error }));
      } finally {
        if (loading.current === own) {
          loading.current = undefined;
          setIsLoading(false);
        }
      }
    },
    [key],
  );
  useEffect(() => {
    setState({ ...EMPTY, key });
    next.current = undefined;
    void load(undefined);
    return () => loading.current?.abort();
  }, [key, load]);
  const reload = useCallback(() => void load(undefined), [load]);
  useFeed(filterPart(query), {
    event: (event) => setState((before) => withEvent(before, event)),
    gap: reload,
  });
  const shown = state.key === key ? state : { ...EMPTY, key };
  const more = () => {
    if (next.current !== undefined && loading.current === undefined) void load(next.current);
  };
  return { ...shown, isLoading, more, reload };
}

/** A job stays at its place until the list is read again, so that nothing moves under the pointer. */
function withEvent(state: ListState, { id, job, matches }: JobEvent): ListState {
  const index = state.jobs.findIndex((known) => known.id === id);
  if (index < 0) {
    return matches && state.bookmark === undefined && state.isRead
      ? { ...state, newCount: state.newCount + 1 }
      : state;
  }
  const jobs = job === null ? state.jobs.toSpliced(index, 1) : state.jobs.toSpliced(index, 1, job);
  const total = job === null && state.total !== undefined ? state.total - 1 : state.total;
  return { ...state, jobs, total };
}
