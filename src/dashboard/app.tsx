/** Frame around the pages: session, navigation, and whether the view is live. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FeedState } from "./api/event-feed.ts";
import { UNAUTHORIZED_EVENT } from "./api/request.ts";
import { logOut, readSession, type Session } from "./api/session.ts";
import { SurroundingsContext } from "./base/context.ts";
import { type TimeZone, visibleText } from "./base/format.ts";
import { useView } from "./base/location.ts";
import { usePreference } from "./base/preferences.ts";
import { useTitle } from "./base/title.ts";
import { useLoaded } from "./base/use-loaded.ts";
import { linkTo, type View } from "./base/view.ts";
import { Boundary } from "./components/boundary.tsx";
import { Foreign, Problem } from "./components/text.tsx";
import { ConflictsPage } from "./pages/conflicts/conflicts.tsx";
import { EventsPage } from "./pages/events.tsx";
import { JobPage } from "./pages/job.tsx";
import { JobsPage } from "./pages/jobs.tsx";
import { LoginDialog, LoginPage } from "./pages/login.tsx";
import { NewPage } from "./pages/new.tsx";
import { NodesPage } from "./pages/nodes.tsx";
import { RulePage } from "./pages/rule.tsx";
import { NewRulePage } from "./pages/rule-form.tsx";
import { RulesPage } from "./pages/rules.tsx";
import { ServersPage } from "./pages/servers.tsx";
import { SettingsPage } from "./pages/settings.tsx";
import { StartPage } from "./pages/start.tsx";
import { TopologyPage } from "./pages/topology/topology.tsx";

const TICK_MS = 1_000;
const THEMES = ["system", "light", "dark"] as const;

interface Message {
  readonly text: string;
  readonly undo: (() => void) | undefined;
}

export function App() {
  const [loggedIn, setLoggedIn] = useState<Session>();
  const found = useLoaded(readSession, "session");
  const session = loggedIn ?? found.value;
  const reader = useRef<Session | undefined>(undefined);
  if (session?.reads) reader.current = session;
  const lookCount = useRef(0);
  const enter = (entered: Session) => {
    // Invalidates session requests that were sent before the login.
    lookCount.current++;
    setLoggedIn(entered);
  };
  useEffect(() => {
    // When the session has expired, shows the login, and then the same view again.
    const look = async () => {
      const count = ++lookCount.current;
      const seen = await readSession().catch(() => undefined);
      if (seen !== undefined && count === lookCount.current) setLoggedIn(seen);
    };
    window.addEventListener(UNAUTHORIZED_EVENT, look);
    return () => window.removeEventListener(UNAUTHORIZED_EVENT, look);
  }, []);
  if (session === undefined) {
    return (
      <main class="centre">
        {found.error === undefined ? <p>Loading…</p> : <Problem error={found.error} />}
        {found.error !== undefined && (
          <button type="button" onClick={found.reload}>
            Try again
          </button>
        )}
      </main>
    );
  }
  if (reader.current === undefined) return <LoginPage session={session} onLogin={enter} />;
  const leave = () => void logOut().finally(() => window.location.reload());
  // The key remounts the frame for a different user, who must not see what the previous user typed.
  return (
    <>
      <Frame
        key={reader.current.name}
        session={reader.current}
        isLoggedOut={!session.reads}
        onLeave={leave}
      />
      {!session.reads && <LoginDialog session={session} onLogin={enter} />}
    </>
  );
}

function Frame({
  session,
  isLoggedOut,
  onLeave,
}: {
  session: Session;
  isLoggedOut: boolean;
  onLeave: () => void;
}) {
  const view = useView();
  const nowMs = useNow();
  const [zone, setZone] = usePreference("time-zone", ["local", "utc"]);
  const [theme, setTheme] = usePreference("theme", THEMES);
  const [isPaused, setIsPaused] = useState(false);
  const [feedState, setFeedState] = useState<FeedState>("connecting");
  const [message, setMessage] = useState<Message>();
  const announce = useCallback((text: string, undo?: () => void) => setMessage({ text, undo }), []);
  const timeZone: TimeZone = zone === "utc" ? "UTC" : undefined;
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const surroundings = useMemo(
    () => ({
      ...{ session, isLoggedOut, nowMs, timeZone, setFeedState, announce },
      isPaused: isPaused || isLoggedOut,
    }),
    [session, isLoggedOut, nowMs, timeZone, isPaused, announce],
  );
  return (
    <SurroundingsContext.Provider value={surroundings}>
      <button type="button" class="skip" onClick={skipToMain}>
        Skip to content
      </button>
      <header class="top">
        <a class="brand" href="#/">
          Tandem
        </a>
        <Navigation view={view} canChange={session.changes} />
        <div class="top-end">
          <LiveState state={feedState} isPaused={isPaused} onPause={setIsPaused} />
          {session.name !== null && (
            <span class="user">
              <Foreign text={session.name} />
              {!session.changes && <span class="badge">read-only</span>}
              <button type="button" class="quiet" onClick={onLeave}>
                Log out
              </button>
            </span>
          )}
        </div>
      </header>
      {feedState === "lost" && !isPaused && (
        <p class="banner" role="alert">
          Connection to the server lost. The data shown is out of date. Retrying every few seconds.
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Title view={view} />
        <Boundary view={linkTo(view.segments, view.query)}>
          <Page view={view} />
        </Boundary>
      </main>
      <footer class="bottom">
        <label class="inline">
          <span class="hidden">Time zone</span>
          <select
            value={zone}
            onChange={({ currentTarget }) => setZone(currentTarget.value as "local" | "utc")}
          >
            <option value="local">Local time</option>
            <option value="utc">UTC</option>
          </select>
        </label>
        <label class="inline">
          <span class="hidden">Colours</span>
          <select
            value={theme}
            onChange={({ currentTarget }) =>
              setTheme(currentTarget.value as (typeof THEMES)[number])
            }
          >
            <option value="system">System colours</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
      </footer>
      <div class="message" role="status">
        {message !== undefined && (
          <>
            {visibleText(message.text)}
            {message.undo !== undefined && (
              <button type="button" class="quiet" onClick={message.undo}>
                Undo
              </button>
            )}
            <button type="button" class="quiet" onClick={() => setMessage(undefined)}>
              Close
            </button>
          </>
        )}
      </div>
    </SurroundingsContext.Provider>
  );
}

/** Pages in the menu, by the first segment of their address. */
const MENU: readonly (readonly [segment: string | undefined, name: string])[] = [
  [undefined, "Overview"],
  ["jobs", "Jobs"],
  ["nodes", "Nodes"],
  ["servers", "Servers"],
  ["rules", "Rules"],
  ["events", "Events"],
  ["conflicts", "Conflicts"],
  ["settings", "Settings"],
];
/** Shown only to administrators, because other users cannot create jobs. */
const NEW = ["new", "New replication"] as const;
const NAMES: ReadonlyMap<string | undefined, string> = new Map([
  ...MENU,
  NEW,
  ["new-rule", "New rule"],
  ["topology", "Topology"],
]);

/** Sets a default title. The page is a later sibling, so the page can set a more specific title. */
function Title({ view: { segments } }: { view: View }) {
  const [first, second] = segments;
  useTitle(second ?? NAMES.get(first) ?? "Page not found");
  return null;
}

function Page({ view: { segments, query } }: { view: View }) {
  const [first, second] = segments;
  if (first === undefined) return <StartPage />;
  if (first === "jobs" && second !== undefined) return <JobPage key={second} name={second} />;
  if (first === "jobs") return <JobsPage query={query} />;
  if (first === "new") return <NewPage query={query} />;
  if (first === "nodes") return <NodesPage />;
  if (first === "servers") return <ServersPage query={query} />;
  if (first === "topology") return <TopologyPage query={query} />;
  if (first === "rules" && second !== undefined) {
    return <RulePage key={second} name={second} query={query} />;
  }
  if (first === "rules") return <RulesPage query={query} />;
  if (first === "new-rule") return <NewRulePage />;
  if (first === "events") return <EventsPage query={query} />;
  if (first === "conflicts") return <ConflictsPage place={segments.slice(1)} query={query} />;
  if (first === "settings") return <SettingsPage query={query} />;
  return (
    <>
      <h1>Page not found</h1>
      <p>
        <a href="#/">Go to the start page</a>
      </p>
    </>
  );
}

function Navigation({ view, canChange }: { view: View; canChange: boolean }) {
  const pages = canChange ? [...MENU, NEW] : MENU;
  return (
    <nav aria-label="Pages">
      {pages.map(([segment, name]) => (
        <a
          key={name}
          href={linkTo(segment === undefined ? [] : [segment])}
          aria-current={view.segments[0] === segment ? "page" : undefined}
        >
          {name}
        </a>
      ))}
    </nav>
  );
}

function LiveState({
  state,
  isPaused,
  onPause,
}: {
  state: FeedState;
  isPaused: boolean;
  onPause: (isPaused: boolean) => void;
}) {
  const word = isPaused
    ? "Paused"
    : { live: "Live", connecting: "Connecting", lost: "Lost", refused: "Not live" }[state];
  return (
    <span class={`live live-${isPaused ? "paused" : state}`}>
      <span>{word}</span>
      <button
        type="button"
        class="quiet"
        aria-pressed={isPaused}
        onClick={() => onPause(!isPaused)}
      >
        {isPaused ? "Resume view" : "Pause view"}
      </button>
    </span>
  );
}

/**
 * Moves the focus to the content. A link cannot do this, because the fragment identifies the view.
 */
function skipToMain(): void {
  document.getElementById("main")?.focus();
}

function useNow(): number {
  const [nowMs, setNowMs] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNowMs(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return nowMs;
}
