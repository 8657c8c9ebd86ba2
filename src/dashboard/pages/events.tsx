/** Events of jobs and decisions of operators, both stored and live. */
import { useState } from "preact/hooks";
import { JOB_CHANGES } from "../../contract/index.ts";
import { readSettings } from "../api/settings.ts";
import type { Query } from "../api/types.ts";
import type { LogEntry } from "../base/event-log.ts";
import { formatCount, formatDuration } from "../base/format.ts";
import { goTo } from "../base/location.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { useHand, useSteady } from "../base/use-steady.ts";
import { linkTo } from "../base/view.ts";
import { FilterField } from "../components/filter-field.tsx";
import { Cell, type Column, Table } from "../components/table.tsx";
import { Clock, ClockOfDay, Foreign, Problem } from "../components/text.tsx";
import { Choice } from "./job-filters.tsx";
import { useEventLog } from "./use-event-log.ts";

const COLUMNS: readonly Column[] = [
  { name: "Time" },
  { name: "Job" },
  { name: "Event" },
  { name: "Who" },
  { name: "Why" },
];
const AGE_SETTING = { section: "replicator", key: "event_max_age_sec" };
const BAD = new Set(["crashed", "failed", "failing", "stalled", "lost"]);

/** Filters with a text value. */
const TEXTS = [
  ["job", "Job"],
  ["rule", "Rule"],
  ["endpoint", "Host or database"],
] as const;

export function EventsPage({ query }: { query: Query }) {
  const { decisions, ...filters } = query;
  const change = (name: string, value: string) => {
    const kept = Object.entries({ ...query, [name]: value }).filter(([, text]) => text !== "");
    goTo(linkTo(["events"], Object.fromEntries(kept)));
  };
  return (
    <>
      <h1>Events</h1>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <Choice
          label="Kind"
          value={query.kind ?? ""}
          values={["", ...JOB_CHANGES]}
          words={{ "": "any" }}
          onChange={(value) => change("kind", value)}
        />
        {TEXTS.map(([name, label]) => (
          <FilterField
            key={name}
            label={label}
            value={query[name] ?? ""}
            onCommit={(value) => change(name, value)}
          />
        ))}
        <label class="check">
          <input
            type="checkbox"
            checked={decisions === "true"}
            onChange={({ currentTarget }) =>
              change("decisions", currentTarget.checked ? "true" : "")
            }
          />
          Operator decisions only
        </label>
      </form>
      <Log key={JSON.stringify(query)} filters={filters} isDecisions={decisions === "true"} />
    </>
  );
}

const IS_DECISION = ({ decision }: LogEntry) => decision !== undefined;
const IS_EVENT = () => true;

function Log({ filters, isDecisions }: { filters: Query; isDecisions: boolean }) {
  const [query] = useState(filters);
  const log = useEventLog(query, isDecisions ? IS_DECISION : IS_EVENT);
  const { entries, end, hasOlder, isReading, error } = log;
  const noun = isDecisions ? "decision" : "event";
  const hand = useHand();
  const newest = useSteady(entries[0]?.place, hand);
  const shown = entries.filter(({ place }) => newest === undefined || place <= newest);
  return (
    <>
      <Problem error={error} />
      <p class="section-note" role="status">
        {`${formatCount(entries.length, noun)}, newest first`}
      </p>
      {entries.length > 0 && (
        <Table label="Events" columns={COLUMNS} hand={hand}>
          {shown.map((entry) => (
            <Row key={entry.place} entry={entry} />
          ))}
        </Table>
      )}
      <div class="commands">
        {hasOlder && (
          <button type="button" disabled={isReading} onClick={log.older}>
            {isReading ? "Reading…" : `Older ${noun}s`}
          </button>
        )}
        <Bound isWhole={!hasOlder} end={end?.time} isDecisions={isDecisions} />
      </div>
    </>
  );
}

/** Shows how far back the list goes, and whether older events are stored. */
function Bound({
  isWhole,
  end,
  isDecisions,
}: {
  isWhole: boolean;
  /** Time of the oldest event loaded, if any. */
  end: string | undefined;
  isDecisions: boolean;
}) {
  const { value: found } = useLoaded(readSettings, "settings");
  const setting = found?.settings.find(
    ({ section, key }) => section === AGE_SETTING.section && key === AGE_SETTING.key,
  );
  const ageSec = Number(setting?.value ?? setting?.default ?? Number.NaN);
  return (
    <p class="section-note">
      {isWhole ? "Searched all stored events" : "Searched stored events"}
      {end !== undefined && (
        <>
          {" "}
          back to <Clock time={end} />
        </>
      )}
      .{" "}
      {Number.isFinite(ageSec) && (
        <>
          {`Events are kept for ${formatDuration(ageSec)}, and routine events for 15 minutes (setting `}
          <a href={linkTo(["settings"], { all: "true", words: AGE_SETTING.key })}>
            {AGE_SETTING.key}
          </a>
          ).{" "}
        </>
      )}
      {isDecisions && "The page of a job always shows its last 20 decisions."}
    </p>
  );
}

function Row({ entry }: { entry: LogEntry }) {
  const { time, name, isGone, changes, decision, failureClass } = entry;
  const isBad = changes.some((change) => BAD.has(change));
  return (
    <tr>
      <Cell name="Time" className="unbroken">
        <ClockOfDay time={time} />
      </Cell>
      <th scope="row">
        {isGone ? (
          <Foreign text={name} />
        ) : (
          <a class="job-link" href={linkTo(["jobs", name])}>
            <Foreign text={name} />
          </a>
        )}
      </th>
      <Cell name="Event" className={isBad ? "bad" : ""}>
        {changes.map((change) => change.replaceAll("_", " ")).join(", ")}
      </Cell>
      <Cell name="Who">
        {decision !== undefined && <Foreign text={decision.user ?? "anonymous administrator"} />}
      </Cell>
      <Cell name="Why">
        {decision?.why != null && <Foreign text={decision.why} />}
        {isBad && failureClass !== undefined && (
          <a href={linkTo(["jobs", name])}>
            <Foreign text={failureClass.replaceAll("_", " ")} />
          </a>
        )}
      </Cell>
    </tr>
  );
}
