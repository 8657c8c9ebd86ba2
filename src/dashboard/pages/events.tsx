/** What happened to jobs lately, and what operators decided: the log of the server, which goes back a quarter of an hour or so. */
import { useRef, useState } from "preact/hooks";
import type { JobEvent } from "../api/event-feed.ts";
import { jobName } from "../api/types.ts";
import { useFeed } from "../base/context.ts";
import { decisionOf, LOG_BEGIN } from "../base/event-log.ts";
import { formatCount } from "../base/format.ts";
import { useSoon } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { type Column, Table } from "../components/table.tsx";
import { ClockOfDay, Foreign, JobLink } from "../components/text.tsx";

/** Kept by the page. */
const EVENTS_MAX = 200;
/** A storm of events, or the whole log, is drawn this often. */
const DRAW_MS = 300;

const COLUMNS: readonly Column[] = [
  { name: "Time" },
  { name: "Job" },
  { name: "What happened" },
  { name: "Who" },
  { name: "Why" },
];

/** Newest first. Decisions are seldom, and what happens by itself does not push them out. */
interface Logs {
  readonly all: readonly JobEvent[];
  readonly decisions: readonly JobEvent[];
}
const EMPTY: Logs = { all: [], decisions: [] };

export function EventsPage() {
  const [isDecisions, setIsDecisions] = useState(false);
  const [{ all, decisions }, setLogs] = useState(EMPTY);
  const latest = useRef(EMPTY);
  const draw = useSoon(() => setLogs(latest.current), DRAW_MS);
  useFeed(
    {},
    {
      event: (event) => {
        latest.current = withEvent(latest.current, event);
        draw();
      },
      gap: () => {},
    },
    LOG_BEGIN,
  );
  const shown = isDecisions ? decisions : all;
  return (
    <>
      <div class="page-head">
        <h1>Events</h1>
        <span class="section-note" role="status">
          {formatCount(shown.length, "event")}, the newest first; at most {EVENTS_MAX}
        </span>
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={isDecisions}
          onChange={({ currentTarget }) => setIsDecisions(currentTarget.checked)}
        />
        Decisions of operators alone
      </label>
      {shown.length > 0 && (
        <Table label="Events" columns={COLUMNS} isStacked>
          {shown.map((event) => (
            <Row key={event.place} event={event} />
          ))}
        </Table>
      )}
    </>
  );
}

function Row({ event }: { event: JobEvent }) {
  const { id, time, job, changes } = event;
  const decision = decisionOf(event);
  const isBad = changes.some((change) =>
    ["crashed", "failed", "failing", "stalled"].includes(change),
  );
  return (
    <tr>
      <td class="unbroken">
        <ClockOfDay time={time} />
      </td>
      <th scope="row">{job === null ? <Foreign text={id} /> : <JobLink job={job} />}</th>
      <td class={isBad ? "bad" : ""}>
        {changes.map((change) => change.replaceAll("_", " ")).join(", ")}
      </td>
      <td>
        {decision === undefined ? (
          ""
        ) : (
          <Foreign text={decision.user ?? "an administrator without a name"} />
        )}
      </td>
      <td>
        {decision?.why != null && <Foreign text={decision.why} />}
        {isBad && job?.last_failure != null && (
          <a href={linkTo(["jobs", jobName(job)])}>
            <Foreign text={job.last_failure.class.replaceAll("_", " ")} />
          </a>
        )}
      </td>
    </tr>
  );
}

function withEvent({ all, decisions }: Logs, event: JobEvent): Logs {
  const isDecision = decisionOf(event) !== undefined;
  // That a list finds the job by something else is no news by itself.
  const isNews = isDecision || event.changes.some((change) => change !== "changed");
  return {
    all: isNews ? [event, ...all].slice(0, EVENTS_MAX) : all,
    decisions: isDecision ? [event, ...decisions].slice(0, EVENTS_MAX) : decisions,
  };
}
