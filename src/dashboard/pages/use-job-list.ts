/** The jobs of a view: pages on demand, and live changes. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { JobEvent } from "../../contract/index.ts";
import { filterPart, readJobs } from "../api/jobs.ts";
import type { Query } from "../api/types.ts";
import { useFeed } from "../base/context.ts";
import { type JobLine, lineOf, linesAfter } from "../base/job-line.ts";
import { useSoon } from "../base/use-loaded.ts";

/**
 * Minimum interval between renders during many events, since each render processes the whole list.
 */
const DRAW_MS = 250;

interface ListState {
  readonly key: string;
  readonly jobs: readonly JobLine[];
  /** Total number of jobs; undefined if the node does not report it. */
  readonly total: number | undefined;
  /** Start of the next page, if any. */
  readonly bookmark: string | undefined;
  readonly isRead: boolean;
  readonly error: unknown;
  /** Number of jobs that have entered the view since the list was read. */
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
  /** Reads the next page if there is one and it is not already being read. */
  readonly more: () => void;
  readonly reload: () => void;
}

export function useJobList(query: Query): JobList {
  const key = JSON.stringify(query);
  const [state, setState] = useState<ListState>({ ...EMPTY, key });
  const [isLoading, setIsLoading] = useState(false);
  /**
   * Start of the next page. A ref, so that an outdated closure does not read the same page again.
   */
  const next = useRef<string | undefined>(undefined);
  const loading = useRef<AbortController | undefined>(undefined);
  const load = useCallback(
    async (bookmark: string | undefined, knownRows: number) => {
      loading.current?.abort();
      const own = new AbortController();
      loading.current = own;
      setIsLoading(true);
      try {
        const page = await readJobs(JSON.parse(key) as Query, { bookmark, knownRows }, own.signal);
        if (own.signal.aborted) return;
        const lines = page.jobs.map(lineOf);
        next.current = page.bookmark === null ? undefined : decodeURIComponent(page.bookmark);
        const following = next.current;
        setState((before) => ({
          key,
          jobs: bookmark === undefined ? lines : [...before.jobs, ...lines],
          total: page.total_rows ?? undefined,
          bookmark: following,
          isRead: true,
          error: undefined,
          // Reset by each read. `withEvents` does not count new jobs until all pages have been
          // read.
          newCount: 0,
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
  const told = useRef<JobEvent[]>([]);
  useEffect(() => {
    setState({ ...EMPTY, key });
    next.current = undefined;
    // Forgets the events that match the previous filters.
    told.current = [];
    void load(undefined, 0);
    return () => loading.current?.abort();
  }, [key, load]);
  const reload = useCallback(() => void load(undefined, 0), [load]);
  const draw = useSoon(() => {
    const events = told.current.splice(0);
    setState((before) => (before.key === key ? withEvents(before, events) : before));
  }, DRAW_MS);
  useFeed(filterPart(query), {
    event: (event) => {
      told.current.push(event);
      draw();
    },
    gap: reload,
  });
  const shown = state.key === key ? state : { ...EMPTY, key };
  const more = () => {
    if (next.current !== undefined && loading.current === undefined)
      void load(next.current, shown.jobs.length);
  };
  return { ...shown, isLoading, more, reload };
}

/**
 * Applies events. A job keeps its place until the list is reloaded, so that nothing moves under the
 * pointer.
 */
function withEvents(state: ListState, events: readonly JobEvent[]): ListState {
  const { lines, goneCount, others } = linesAfter(state.jobs, events);
  const isWhole = state.bookmark === undefined && state.isRead;
  const newCount = isWhole ? others.filter(({ matches }) => matches).length : 0;
  return {
    ...state,
    jobs: lines,
    total: state.total === undefined ? undefined : state.total - goneCount,
    newCount: state.newCount + newCount,
  };
}
