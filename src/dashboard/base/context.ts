/** What every page needs: who looks, the time, and whether the view is live. */
import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JobEvent } from "../../contract/index.ts";
import { EventFeed, type FeedState } from "../api/event-feed.ts";
import type { Session } from "../api/session.ts";
import type { Query } from "../api/types.ts";
import type { TimeZone } from "./format.ts";

export interface Surroundings {
  /** The last one with which somebody could read. */
  readonly session: Session;
  /** Whether it has ended, and somebody is asked to log in. */
  readonly isLoggedOut: boolean;
  /** Of the browser, once a second. */
  readonly nowMs: number;
  readonly timeZone: TimeZone;
  /** What is shown stays as it is: the user wants that, or is asked to log in. */
  readonly isPaused: boolean;
  readonly setFeedState: (state: FeedState) => void;
  /** Says something to the user, and to screen readers; `undo` takes back what was done. */
  readonly announce: (text: string, undo?: () => void) => void;
}

export const SurroundingsContext = createContext<Surroundings | undefined>(undefined);

export function useSurroundings(): Surroundings {
  const surroundings = useContext(SurroundingsContext);
  if (surroundings === undefined) throw new Error("Outside of the dashboard");
  return surroundings;
}

interface FeedHandlers {
  readonly event: (event: JobEvent) => void;
  /** What was read is out of date. */
  readonly gap: () => void;
}

/**
 * Follows the events of the jobs that the filters find, unless the user has paused the view or looks at another one; those behind the
 * place `since`, or those from now on. While `since` is null, it does not begin.
 */
export function useFeed(query: Query, handlers: FeedHandlers, since?: string | null): void {
  const { isLoggedOut, isPaused, setFeedState } = useSurroundings();
  // A browser has six connections to a server at most, and each feed takes one.
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
    // What was asked for meanwhile was refused.
    if (wasLoggedOut.current && !isLoggedOut) latest.current.gap();
    wasLoggedOut.current = isLoggedOut;
  }, [isLoggedOut]);
}

function useIsInSight(): boolean {
  const [isInSight, setIsInSight] = useState(() => document.visibilityState === "visible");
  useEffect(() => {
    const follow = () => setIsInSight(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", follow);
    return () => document.removeEventListener("visibilitychange", follow);
  }, []);
  return isInSight;
}
