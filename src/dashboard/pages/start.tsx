/** Overview: tiles, failing jobs by error and host, and rates. Failures come first. */
import { useState } from "preact/hooks";
import type { FailingGroup, FailingPage, RulesPage } from "../../contract/index.ts";
import { filterOf } from "../api/failing-filter.ts";
import { countJobs, type JobCount } from "../api/jobs.ts";
import { client } from "../api/request.ts";
import type { Command, Query } from "../api/types.ts";
import { useFeed, useRefresh, useSurroundings } from "../base/context.ts";
import { formatCount, formatDuration, formatNumber } from "../base/format.ts";
import { useTitle } from "../base/title.ts";
import { useLoaded, useSoon } from "../base/use-loaded.ts";
import { useIsNarrow } from "../base/use-narrow.ts";
import { useHand, useSteadyRows } from "../base/use-steady.ts";
import { linkTo } from "../base/view.ts";
import { CommandDialog } from "../components/command-dialog.tsx";
import { CredentialDialog } from "../components/credential-dialog.tsx";
import { GatedLogins, LoginWait } from "../components/login-gate.tsx";
import { Foreign, Moment, Problem } from "../components/text.tsx";
import { AlertProblem } from "./alert-delivery.tsx";
import { Rates } from "./rates.tsx";

/** Minimum lag that counts as behind. Smaller lags usually disappear by themselves. */
const BEHIND_SEC = "60";
/** Reload interval, for numbers whose changes cause no events. */
const REFRESH_MS = 10_000;
/** Minimum interval between reloads during many events. */
const EVENTS_WAIT_MS = 1_500;

const LISTS = {
  failing: { failing: "true" },
  behind: { behind_sec: BEHIND_SEC, sort: "lag", descending: "true" },
  leftBehind: { left_behind: "true" },
  paused: { paused: "true" },
  parked: { parked: "true" },
  unwatched: { parked: "true", unknown: "true" },
  running: { state: "running" },
  caughtUp: { state: "running", behind: "false", failing: "false" },
  unknown: { unknown: "true" },
  waiting: { state: "pending,crashing" },
} as const satisfies Readonly<Record<string, Query>>;

type Counts = Readonly<Record<keyof typeof LISTS, JobCount>>;
/**
 * Number of pages read for the count in a tile. Small, because tiles are updated often and "1,000+"
 * suffices.
 */
const TILE_PAGES_MAX = 1;
/**
 * Caught-up jobs that occupy a slot. The tile shows their number plus the number of parked jobs.
 */
const CAUGHT_UP_IN_SLOTS: Query = { ...LISTS.caughtUp, parked: "false" };

export function StartPage() {
  const overview = useLoaded(readOverview, "overview");
  const soon = useSoon(overview.reload, EVENTS_WAIT_MS);
  useFeed({}, { event: soon, gap: overview.reload });
  useRefresh(overview.reload, REFRESH_MS);
  const { value, error } = overview;
  const isNarrow = useIsNarrow();
  useTitle(value?.failing.jobs ? `${formatNumber(value.failing.jobs)} failing` : "", "Overview");
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Problem error={error} />
      <AlertProblem />
      {value === undefined ? (
        error === undefined && <p>Loading…</p>
      ) : (
        <>
          {!isNarrow && <Tiles {...value} />}
          <FailingGroups failing={value.failing} onChange={overview.reload} />
          <FailingRules page={value.rules} />
          <GatedLogins page={value.logins} />
          {isNarrow && <Tiles {...value} />}
        </>
      )}
      <Rates />
    </>
  );
}

async function readOverview(signal: AbortSignal) {
  const [failing, rules, logins, { nodes }, { groups }, ...counts] = await Promise.all([
    client.jobs.failing({}, { signal }).page(),
    client.rules.list({ failing: true, limit: 10 }, { signal }).page(),
    client.jobs.logins({}, { signal }).page(),
    client.nodes.list({}, { signal }).page(),
    client.groups.list({ limit: 1 }, { signal }).page(),
    ...Object.entries({ ...LISTS, caughtUp: CAUGHT_UP_IN_SLOTS }).map(
      async ([name, query]) => [name, await countJobs(query, signal, TILE_PAGES_MAX)] as const,
    ),
  ]);
  const counted = Object.fromEntries(counts) as Counts;
  const isProven = counted.unwatched.count === 0;
  const caughtUp = isProven
    ? sum(counted.caughtUp, counted.parked)
    : await countJobs(LISTS.caughtUp, signal, TILE_PAGES_MAX);
  const longestWaitSec = groups[0]?.longest_wait_sec ?? 0;
  return { failing, rules, logins, nodes, longestWaitSec, counts: { ...counted, caughtUp } };
}

function sum(one: JobCount, other: JobCount): JobCount {
  return { count: one.count + other.count, isExact: one.isExact && other.isExact };
}

type Overview = Awaited<ReturnType<typeof readOverview>>;

function Tiles({ counts, longestWaitSec, nodes }: Overview) {
  return (
    <ul class="tiles" aria-label="Jobs">
      <Tile name="Failing" value={counts.failing} query={LISTS.failing} isBad />
      <Tile
        name="Behind"
        value={counts.behind}
        query={LISTS.behind}
        note={`lag of ${BEHIND_SEC} s or more`}
        isWarning
      />
      <Tile
        name="Failed documents"
        value={counts.leftBehind}
        query={LISTS.leftBehind}
        note="jobs"
        isWarning
      />
      <Tile name="Paused" value={counts.paused} query={LISTS.paused} />
      <Tile name="Running" value={counts.running} query={LISTS.running} />
      <Tile
        name="Caught up"
        value={counts.caughtUp}
        query={LISTS.caughtUp}
        note="no pending changes"
      />
      <Tile name="Parked" value={counts.parked} query={LISTS.parked} note="occupying no slot" />
      <Tile
        name="Unknown"
        value={counts.unknown}
        query={LISTS.unknown}
        note="source has not answered"
      />
      <Tile name="Waiting" value={counts.waiting} query={LISTS.waiting} />
      <li>
        <a class="tile" href={linkTo(["jobs"], LISTS.waiting)}>
          <span class="tile-name">Longest wait</span>
          <span class="tile-value">{formatDuration(longestWaitSec)}</span>
          <span class="tile-note">of jobs due to run</span>
        </a>
      </li>
      <NodesTile nodes={nodes} />
    </ul>
  );
}

function NodesTile({ nodes }: Pick<Overview, "nodes">) {
  const running = nodes.filter(({ state }) => state === "running");
  const others = (["draining", "dead"] as const)
    .map((state) => [state, nodes.filter((node) => node.state === state).length] as const)
    .filter(([, count]) => count > 0);
  const isDead = others.some(([state]) => state === "dead");
  return (
    <li>
      <a class={isDead ? "tile tile-bad" : "tile"} href={linkTo(["nodes"])}>
        <span class="tile-name">Nodes</span>
        <span class="tile-value">{formatNumber(running.length)}</span>
        <span class="tile-note">
          {others.length === 0
            ? "accepting jobs"
            : others.map(([state, count]) => `${formatNumber(count)} ${state}`).join(", ")}
        </span>
      </a>
    </li>
  );
}

function Tile({
  name,
  value: { count, isExact },
  query,
  note,
  isBad = false,
  isWarning = false,
}: {
  name: string;
  value: JobCount;
  query: Query;
  note?: string;
  /** Whether the tile is red if its number is not zero. */
  isBad?: boolean;
  isWarning?: boolean;
}) {
  const isRaised = count > 0;
  const look =
    isRaised && isBad ? "tile tile-bad" : isRaised && isWarning ? "tile tile-warning" : "tile";
  return (
    <li>
      <a class={look} href={linkTo(["jobs"], query)}>
        <span class="tile-name">{name}</span>
        <span class="tile-value">
          {formatNumber(count)}
          {!isExact && "+"}
        </span>
        <span class="tile-note">{note ?? (count === 1 ? "job" : "jobs")}</span>
      </a>
    </li>
  );
}

type Asked =
  | { readonly kind: "command"; readonly command: Command; readonly query: Query }
  | {
      readonly kind: "credential";
      readonly group: FailingGroup;
      readonly login: NonNullable<FailingGroup["login"]>;
    };

const keyOfGroup = ({ class: failureClass, side, host }: FailingGroup) =>
  `${failureClass} ${side} ${host}`;

function FailingGroups({ failing, onChange }: { failing: FailingPage; onChange: () => void }) {
  const [asked, setAsked] = useState<Asked>();
  const { groups, total_rows: groupTotal, jobs: jobTotal } = failing;
  const hand = useHand();
  const shown = useSteadyRows(groups, keyOfGroup, hand);
  const close = (isDone: boolean) => {
    setAsked(undefined);
    if (isDone) onChange();
  };
  return (
    <section class="failing" aria-labelledby="failing-title">
      <h2 id="failing-title">Failing jobs</h2>
      {jobTotal === 0 ? (
        <p class="good">No failing jobs.</p>
      ) : (
        <p class="section-note">
          {`${formatCount(jobTotal, "job")} in ${formatCount(groupTotal, "group")}, grouped by error, side and host`}
          {groupTotal > groups.length &&
            `; showing the ${formatCount(groups.length, "largest group")}`}
        </p>
      )}
      <ul class="groups" {...hand.handlers}>
        {shown.map((group) => (
          <Group
            key={keyOfGroup(group)}
            group={group}
            query={filterOf(group)}
            onCommand={(command, query) => setAsked({ kind: "command", command, query })}
            onCredential={(login) => setAsked({ kind: "credential", group, login })}
          />
        ))}
      </ul>
      {asked?.kind === "command" && (
        <CommandDialog
          command={asked.command}
          targets={{ kind: "filter", query: asked.query }}
          onClose={close}
        />
      )}
      {asked?.kind === "credential" && (
        <CredentialDialog
          login={asked.login}
          side={asked.group.side}
          query={filterOf(asked.group)}
          onClose={close}
        />
      )}
    </section>
  );
}

function Group({
  group,
  query,
  onCommand,
  onCredential,
}: {
  group: FailingGroup;
  query: Query;
  onCommand: (command: Command, query: Query) => void;
  onCredential: (login: NonNullable<FailingGroup["login"]>) => void;
}) {
  const { session, nowMs } = useSurroundings();
  const { class: failureClass, count, error, reason, example, login } = group;
  const place = placeOf(group);
  const label = `${failureClass} at ${place}`;
  return (
    <li class="group" aria-label={label}>
      <a class="group-title" href={linkTo(["jobs"], query)}>
        <strong class="group-count">{formatNumber(count)}</strong>
        <span class="group-class">{failureClass.replaceAll("_", " ")}</span>
        <span class="group-host">
          <Foreign text={place} />
        </span>
      </a>
      <div>
        <p class="group-reason">
          <Foreign text={reason.startsWith(error) ? reason : `${error}: ${reason}`} />
        </p>
        <LoginWait gate={group.login_gate} />
        <p class="section-note">
          for example{" "}
          <a href={linkTo(["jobs", example])}>
            <Foreign text={example} />
          </a>
        </p>
      </div>
      <p class="group-times">
        <span>failing for {formatDuration((nowMs - Date.parse(group.since)) / 1000)}</span>
        <span>
          {group.next_try === null ? (
            "no next try scheduled"
          ) : (
            <>
              next try <Moment time={group.next_try} />
            </>
          )}
        </span>
      </p>
      {session.changes && (
        <div class="group-buttons">
          {failureClass !== "invalid" && (
            <button
              type="button"
              onClick={() => onCommand("retry", query)}
              aria-label={`Retry ${label}`}
            >
              Retry
            </button>
          )}
          <button
            type="button"
            onClick={() => onCommand("pause", query)}
            aria-label={`Pause ${label}`}
          >
            Pause
          </button>
          {login != null && (
            <button
              type="button"
              class="primary"
              onClick={() => onCredential(login)}
              aria-label={`Replace credential of ${label}`}
            >
              Replace credential
            </button>
          )}
        </div>
      )}
    </li>
  );
}

function FailingRules({ page: { rules, total_rows: total } }: { page: RulesPage }) {
  if (total === 0) return null;
  return (
    <section aria-labelledby="failing-rules-title">
      <h2 id="failing-rules-title">Rules whose source cannot be listed</h2>
      {total > rules.length && (
        <p class="section-note">{`Showing ${rules.length} of ${formatCount(total, "rule")}`}</p>
      )}
      <ul>
        {rules.map(({ name, status: { last_error: failure } }) => (
          <li key={name}>
            <a href={linkTo(["rules", name])}>
              <Foreign text={name} />
            </a>{" "}
            <Foreign className="bad" text={`${failure?.error}: ${failure?.reason}`} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Returns the side and host of a group, as text. */
function placeOf({ side, host }: FailingGroup): string {
  if (side === null) return host ?? "no server";
  return `${host ?? "databases of this server"} (${side})`;
}
