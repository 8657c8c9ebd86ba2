/** Context of all pages: the session, the time, and whether the view is live. */
import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JobEvent } from "../../contract/index.ts";
import { EventFeed, type FeedState } from "../api/event-feed.ts";
import type { Session } from "../api/session.ts";
import type { Query } from "../api/types.ts";
import type { TimeZone } from "./format.ts";
import { useInterval } from "./use-loaded.ts";

export interface Surroundings {
  /** The current session or, during a login, the last one with read access. */
  readonly session: Session;
  /** Whether `session` has expired. The user is then asked to log in. */
  readonly isLoggedOut: boolean;
  /** The browser's clock, updated every second. */
  readonly nowMs: number;
  readonly timeZone: TimeZone;
  /** Whether the view is frozen, by the user or because the session has expired. */
  readonly isPaused: boolean;
  readonly setFeedState: (state: FeedState) => void;
  /** Shows a message to the user, and to screen readers. `undo` reverts the action. */
  readonly announce: (text: string, undo?: () => void) => void;
}

export const SurroundingsContext = createContext<Surroundings | undefined>(undefined);

export function useSurroundings(): Surroundings {
  const surroundings = useContext(SurroundingsContext);
  if (surroundings === undefined)
    throw new Error("`useSurroundings` must be called in a component of the dashboard");
  return surroundings;
}

interface FeedHandlers {
  readonly event: (event: JobEvent) => void;
  /** Called when events might have been lost. Data read earlier might then be out of date. */
  readonly gap: () => void;
}

/**
 * Subscribes to the events of matching jobs, unless the user has paused the view or opened a
 * different one. The feed starts after the position `since`. If `since` is undefined, the feed
 * starts with new events; while `since` is null, the feed does not start.
 */
export function useFeed(query: Query, handlers: FeedHandlers, since?: string | null): void {
  const { isLoggedOut, isPaused, setFeedState } = useSurroundings();
  // Disconnects hidden views, because browsers limit connections to a server to six and each feed
  // occupies one.
  const isInSight = useIsInSight();
  const latest = useRef(handlers);
  latest.current = handlers;
  const key = JSON.stringify(query);
  const feed = useMemo(
    () =>
      new EventFeed(
        JSON.parse(key) as Query,
        {
          event: (event) => latest.current.event(event),
          gap: () => latest.current.gap(),
          state: setFeedState,
        },
        since ?? undefined,
      ),
    [key, since, setFeedState],
  );
  const isFollowed = !isPaused && isInSight && since !== null;
  useEffect(() => {
    if (isFollowed) feed.open();
    return () => feed.close();
  }, [feed, isFollowed]);
  const wasLoggedOut = useRef(false);
  useEffect(() => {
    // Reloads after a login, because requests sent without a session were rejected.
    if (wasLoggedOut.current && !isLoggedOut) latest.current.gap();
    wasLoggedOut.current = isLoggedOut;
  }, [isLoggedOut]);
}

/**
 * Opens a feed for a page that shows no events. The feed only indicates whether the connection is
 * live.
 */
export function useIdleFeed(gap: () => void, query: Query = {}): void {
  useFeed(query, { event: () => {}, gap });
}

/** Reloads data at an interval, unless the view is paused or `isHeld`. */
export function useRefresh(reload: () => void, intervalMs: number, isHeld = false): void {
  const { isPaused } = useSurroundings();
  useInterval(() => {
    if (!isPaused && !isHeld) reload();
  }, intervalMs);
}

function useIsInSight(): boolean {
  const [isInSight, setIsInSight] = useState(() => document.visibilityState === "visible");
  useEffect(() => {
    const follow = () => setIsInSight(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", follow);
    // The page might have been hidden before this effect ran.
    follow();
    return () => document.removeEventListener("visibilitychange", follow);
  }, []);
  return isInSight;
}
