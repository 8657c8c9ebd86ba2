/** The event log: the newest page, older ones on demand, and live events. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { client } from "../api/request.ts";
import type { Query } from "../api/types.ts";
import { useFeed } from "../base/context.ts";
import { entryOf, LOG_BEGIN, type LogEntry } from "../base/event-log.ts";
import { useSoon } from "../base/use-loaded.ts";

/** Page size: number of log entries that a search has to find. */
const ROWS = 100;
/** Maximum number of pages searched for `ROWS` entries. */
const PAGES_MAX = 10;
/** Minimum interval between renders during many events. */
const DRAW_MS = 300;

interface Log {
  /** Entries read so far, newest first. */
  readonly entries: readonly LogEntry[];
  /** How far back the log has been searched: the place and time of the last event found. */
  readonly end: { readonly place: string; readonly time: string | undefined } | undefined;
  /** Whether the server stores older events. */
  readonly hasOlder: boolean;
  readonly error: unknown;
}

export interface EventLog extends Log {
  readonly isReading: boolean;
  /** Reads older entries. */
  readonly older: () => void;
}

const EMPTY: Log = { entries: [], end: undefined, hasOlder: true, error: undefined };

/**
 * Reads the events that match `query`. `isShown` selects entries. Both must stay the same between
 * renders.
 */
export function useEventLog(query: Query, isShown: (entry: LogEntry) => boolean): EventLog {
  const [log, setLog] = useState(EMPTY);
  const [isReading, setIsReading] = useState(false);
  /**
   * Place of the newest event read, after which the feed starts; null until the first page has been
   * read.
   */
  const [since, setSince] = useState<string | null>(null);
  const reading = useRef<AbortController | undefined>(undefined);
  const told = useRef<LogEntry[]>([]);
  /** Maximum number of entries kept: as many as were requested. */
  const rowsMax = useRef(2 * ROWS);

  const read = useCallback(
    async (start: Log) => {
      reading.current?.abort();
      const own = new AbortController();
      reading.current = own;
      setIsReading(true);
      try {
        const { found, newest } = await lookBack(start, query, isShown, own.signal);
        const rows = start.entries.length + found.entries.length;
        rowsMax.current = Math.max(rowsMax.current, rows);
        setLog((before) => (start.end === undefined ? found : withOlder(before, start, found)));
        if (start.end === undefined) setSince(newest ?? LOG_BEGIN);
      } catch (error) {
        if (!own.signal.aborted) setLog((before) => ({ ...before, error }));
      } finally {
        if (reading.current === own) setIsReading(false);
      }
    },
    [isShown, query],
  );
  useEffect(() => {
    void read(EMPTY);
    return () => reading.current?.abort();
  }, [read]);
  const draw = useSoon(() => {
    const entries = told.current.splice(0);
    setLog((before) => withEntries(before, entries, rowsMax.current));
  }, DRAW_MS);
  useFeed(
    query,
    {
      event: (event) => {
        const entry = entryOf(event);
        if (entry === undefined || !isShown(entry)) return;
        told.current.push(entry);
        draw();
      },
      gap: () => void read(EMPTY),
    },
    since,
  );
  return { ...log, isReading, older: () => void read(log) };
}

/**
 * Reads stored events back in time from the end of `start`, page by page, until enough matching
 * entries are found. Returns these entries, and the place of the newest event read.
 */
async function lookBack(
  start: Log,
  query: Query,
  isShown: (entry: LogEntry) => boolean,
  signal: AbortSignal,
): Promise<{ readonly found: Log; readonly newest: string | undefined }> {
  const entries: LogEntry[] = [];
  let { end, hasOlder } = start;
  let newest: string | undefined;
  for (let page = 0; page < PAGES_MAX && hasOlder && entries.length < ROWS; page++) {
    const { events, before } = await client
      .pastEvents({ ...(query as object), before: end?.place }, { signal })
      .page();
    newest ??= events[0]?.place;
    const last = events.at(-1);
    const place = before ?? last?.place ?? end?.place;
    if (place !== undefined) end = { place, time: last?.time ?? end?.time };
    hasOlder = before !== null;
    for (const event of events) {
      const entry = entryOf(event);
      if (entry !== undefined && isShown(entry)) entries.push(entry);
    }
  }
  return { found: { entries, end, hasOlder, error: undefined }, newest };
}

/**
 * Appends the older entries in `found`, unless the end of the log has moved since they were
 * requested.
 */
function withOlder(log: Log, start: Log, found: Log): Log {
  if (log.end?.place !== start.end?.place) return log;
  return { ...found, entries: [...log.entries, ...found.entries] };
}

/**
 * Prepends entries of live events (`told`, oldest first), unless they are in the log already. Drops
 * the oldest entries above `rowsMax`.
 */
function withEntries(log: Log, told: readonly LogEntry[], rowsMax: number): Log {
  const newest = log.entries[0]?.place ?? "";
  const fresh = told.filter(({ place }) => place > newest);
  const entries = [...fresh.toReversed(), ...log.entries];
  const kept = entries.slice(0, rowsMax);
  const last = kept.at(-1);
  if (kept.length === entries.length || last === undefined) return { ...log, entries };
  return { ...log, entries: kept, end: { place: last.place, time: last.time }, hasOlder: true };
}
