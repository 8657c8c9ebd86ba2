/** A job: its state, what holds it back, its definition, and its history. */
import { useState } from "preact/hooks";
import { type Job, stateWord } from "../../contract/index.ts";
import { filterOf } from "../api/failing-filter.ts";
import { type JobDetails, readDetails, readDocument } from "../api/one-job.ts";
import { RequestError } from "../api/request.ts";
import { COMMANDS, type Command } from "../api/types.ts";
import { COMMAND_WORDS } from "../base/command-words.ts";
import { useFeed, useRefresh, useSurroundings } from "../base/context.ts";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatRate,
} from "../base/format.ts";
import { progressOf } from "../base/job-figures.ts";
import { visibleJson } from "../base/json.ts";
import { goTo } from "../base/location.ts";
import { masked } from "../base/masked.ts";
import { lagsOf } from "../base/run-series.ts";
import { timelineOf } from "../base/timeline.ts";
import { useTitle } from "../base/title.ts";
import { useLoaded, useSoon } from "../base/use-loaded.ts";
import { type Hand, useHand, useSteady } from "../base/use-steady.ts";
import { linkTo } from "../base/view.ts";
import { CommandDialog } from "../components/command-dialog.tsx";
import { LoginWait } from "../components/login-gate.tsx";
import { Figure } from "../components/table.tsx";
import { Clock, Fact, Foreign, Lag, Moment, Problem, StateBadge } from "../components/text.tsx";
import { JobFailures } from "./job-failures.tsx";
import { RunCharts } from "./run-charts.tsx";
import { StartFromDialog } from "./start-from-dialog.tsx";
import { useLagSamples } from "./use-lag-samples.ts";

const REFRESH_MS = 5_000;
const EVENTS_WAIT_MS = 500;

const HELD_BACK: Readonly<Record<string, string>> = {
  paused: "Paused by an operator.",
  storage: "The disk of this server is full.",
  after: "Waiting until other jobs have completed or caught up.",
  placement: "No running node has all labels that the job requires.",
  outage: "A server is unreachable and is probed periodically.",
  backoff: "Waiting to retry after a failure.",
  schedule: "Waiting for the next scheduled time.",
  slot: "Due, but all slots are in use.",
  share: "Due, but jobs of another fair-share group run first.",
  budget: "Requests are limited by a budget.",
  login: "Waiting until a login to the account is allowed again.",
  limiter: "Requests are delayed because a server responds with 429 (too many requests).",
};

export function JobPage({ name }: { name: string }) {
  const details = useLoaded((signal) => readDetails(name, signal), name);
  const soon = useSoon(details.reload, EVENTS_WAIT_MS);
  const { value, error } = details;
  const hand = useHand();
  const shown = useSteady(value, hand);
  const database = value?.job.database;
  useTitle(name, value && stateWord(value.job));
  useFeed(database == null ? {} : { database }, {
    event: ({ id, job }) => {
      if (id === value?.job.id || (job !== null && job.name === name)) soon();
    },
    gap: details.reload,
  });
  useRefresh(details.reload, REFRESH_MS);
  return (
    <>
      <p class="trail">
        <a href={linkTo(["jobs"])}>Jobs</a> / <Foreign text={name} />
      </p>
      {error instanceof RequestError && error.status === 404 ? (
        <p class="problem" role="alert">
          Job not found. It may have been removed.
        </p>
      ) : (
        <Problem error={error} />
      )}
      {shown !== undefined && (
        <Details name={name} details={shown} hand={hand} reload={details.reload} />
      )}
    </>
  );
}

function Details({
  name,
  details: { job, runs, failureTotal, failureCounts },
  hand,
  reload,
}: {
  name: string;
  details: JobDetails;
  /**
   * Tracks interaction with the failed documents. `details` does not change during an interaction,
   * because content that appears above the documents would move them.
   */
  hand: Hand;
  reload: () => void;
}) {
  const { session } = useSurroundings();
  const seen = useLagSamples(job);
  const lags = lagsOf(runs, seen);
  const hasCharts =
    lags.some(({ lagSec }) => lagSec !== null) ||
    runs.some(({ docs_written: count }) => count !== null && count > 0);
  return (
    <>
      <div class="page-head">
        <h1>
          <Foreign text={name} />
        </h1>
        <StateBadge job={job} />
        {job.stalled && <span class="badge badge-failing">stalled</span>}
      </div>
      {session.changes && <JobCommands job={job} name={name} reload={reload} />}
      <LastFailure job={job} />
      <LoginWait gate={job.login_gate} />
      <Figures job={job} />
      {failureTotal > 0 && (
        <JobFailures
          name={name}
          isPaused={job.paused}
          total={failureTotal}
          counts={failureCounts}
          hand={hand}
          reload={reload}
        />
      )}
      {hasCharts && <RunCharts runs={runs} lags={lags} />}
      <div class="columns">
        <Timeline details={{ job, runs }} />
        <Definition job={job} />
      </div>
    </>
  );
}

function JobCommands({ job, name, reload }: { job: Job; name: string; reload: () => void }) {
  const [command, setCommand] = useState<Command | "start-from">();
  const isDocument = job.doc_id !== null;
  // Unavailable commands stay visible, so that no button moves while the job progresses.
  const offered = COMMANDS.filter((candidate) => candidate !== "retry_failures");
  const refused: Readonly<Partial<Record<Command, boolean>>> = {
    retry: job.paused || job.state === "running",
    pause: job.paused,
    resume: !job.paused,
  };
  const close = (isDone: boolean) => {
    setCommand(undefined);
    if (isDone && command === "cancel") goTo(linkTo(["jobs"]));
    else if (isDone) reload();
  };
  return (
    <div class="commands">
      {offered.map((candidate) => (
        <button
          key={candidate}
          type="button"
          class={COMMAND_WORDS[candidate].isFinal ? "danger" : ""}
          disabled={refused[candidate] === true}
          onClick={() => setCommand(candidate)}
        >
          {COMMAND_WORDS[candidate].verb}
        </button>
      ))}
      <button type="button" class="danger" onClick={() => setCommand("start-from")}>
        Start from…
      </button>
      {isDocument && (
        <>
          <a class="button" href={linkTo(["new"], { edit: name })}>
            Edit
          </a>
          <a class="button" href={linkTo(["new"], { clone: name })}>
            Clone
          </a>
        </>
      )}
      {command === "start-from" && <StartFromDialog name={name} onClose={close} />}
      {command !== undefined && command !== "start-from" && (
        <CommandDialog
          command={command}
          targets={{ kind: "names", names: [name] }}
          onClose={close}
        />
      )}
    </div>
  );
}

function LastFailure({ job: { last_failure: failure, failing_since: since } }: { job: Job }) {
  const { nowMs } = useSurroundings();
  if (failure === null) return null;
  const { class: failureClass, error, reason, phase, side, host, tries } = failure;
  const place = [phase, side, host].filter((part) => part !== null).join(", ");
  return (
    <section class="failure" aria-labelledby="failure-title">
      <h2 id="failure-title">
        {failureClass.replaceAll("_", " ")}
        {place !== "" && (
          <span class="section-note">
            {" "}
            <Foreign text={place} />
          </span>
        )}
      </h2>
      <p>
        <Foreign text={reason.startsWith(error) ? reason : `${error}: ${reason}`} />
      </p>
      <p class="section-note">
        {since !== null &&
          `Failing for ${formatDuration((nowMs - Date.parse(since)) / 1000)}, ${formatCount(tries, "try", "tries")} so far. `}
        Last try: <Moment time={failure.time} />.{" "}
        {failure.next_try !== null && (
          <>
            Next try: <Moment time={failure.next_try} />.{" "}
          </>
        )}
        <a href={linkTo(["jobs"], filterOf(failure))}>All jobs with this failure</a>
      </p>
    </section>
  );
}

/**
 * Returns the reason why a job waits for other jobs or for a node; `undefined` if the job does not
 * wait.
 */
function waitReason({ held_back_by, info }: Job): string | undefined {
  if (held_back_by !== "after" && held_back_by !== "placement") return undefined;
  const reason = info?.error ?? info?.after;
  return typeof reason === "string" ? reason : undefined;
}

function Figures({ job }: { job: Job }) {
  const progress = progressOf(job);
  const figure = (name: string) => {
    const value = job.info?.[name];
    return <Figure value={typeof value === "number" ? value : null} />;
  };
  return (
    <section aria-labelledby="figures-title">
      <h2 id="figures-title" class="hidden">
        Figures
      </h2>
      {progress !== undefined && (
        <div class="progress">
          <progress max={1} value={progress} aria-label="Progress" />
          <span>{formatNumber(Math.floor(progress * 1000) / 10)} %</span>
        </div>
      )}
      <dl class="facts">
        <Fact name="Lag">
          <Lag job={job} />
        </Fact>
        <Fact name="Pending changes">
          <Figure value={job.pending} />
        </Fact>
        <Fact name="Documents written">{figure("docs_written")}</Fact>
        <Fact name="Documents read">{figure("docs_read")}</Fact>
        <Fact name="Refused">{figure("doc_write_failures")}</Fact>
        <Fact name="Failed documents">{formatNumber(job.left_behind)}</Fact>
        <Fact name="Rate">{formatRate(job.docs_per_sec, "documents")}</Fact>
        <Fact name="Traffic">{formatBytes(job.bytes_per_sec)}/s</Fact>
        <Fact name="Held back by">
          {job.held_back_by === null ? (
            "nothing"
          ) : (
            <span title={HELD_BACK[job.held_back_by]}>
              <strong>{job.held_back_by}</strong>
              <br />
              <Foreign text={waitReason(job) ?? HELD_BACK[job.held_back_by] ?? ""} />
            </span>
          )}
        </Fact>
        <Fact name="Next try">
          <Moment time={job.next_try} />
        </Fact>
        <Fact name="Node">{job.node === null ? "–" : <Foreign text={job.node} />}</Fact>
        <Fact name="Owner">{job.user === null ? "–" : <Foreign text={job.user} />}</Fact>
      </dl>
    </section>
  );
}

function Timeline({ details: { job, runs } }: { details: Pick<JobDetails, "job" | "runs"> }) {
  return (
    <section class="panel" aria-labelledby="timeline-title">
      <h2 id="timeline-title">History</h2>
      <ol class="timeline">
        {timelineOf(job, runs).map(({ time, kind, title, detail, isBad, run }, index) => (
          <li key={`${time} ${kind} ${index}`} class={isBad ? "event-bad" : `event-${kind}`}>
            <span class="event-title">{title}</span> <Clock time={time} />
            {detail !== null && (
              <p>
                <Foreign text={detail} />
              </p>
            )}
            {run !== undefined && run.docs_written !== null && (
              <p class="section-note">
                {formatDuration((Date.parse(run.end) - Date.parse(run.start)) / 1000)},{" "}
                {formatNumber(run.docs_written)} written,{" "}
                {formatNumber(run.doc_write_failures ?? 0)} refused, {formatBytes(run.bytes ?? 0)}
              </p>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Definition({ job }: { job: Job }) {
  const { session } = useSurroundings();
  const { value: stored, error } = useLoaded(
    (signal) => readDocument(session, job, signal),
    job.id,
  );
  return (
    <section class="panel" aria-labelledby="definition-title">
      <h2 id="definition-title">Details</h2>
      <dl class="facts facts-wide">
        <Fact name="Source">
          <Foreign text={job.source ?? "?"} />
        </Fact>
        <Fact name="Target">
          <Foreign text={job.target ?? "?"} />
        </Fact>
        <Fact name="Replication id">
          <Foreign text={job.id} />
        </Fact>
        {job.rule != null && (
          <Fact name="Rule">
            <a href={linkTo(["rules", job.rule])}>
              <Foreign text={job.rule} />
            </a>
          </Fact>
        )}
        {Object.keys(job.tags).length > 0 && (
          <Fact name="Tags">
            <TagLinks tags={job.tags} />
          </Fact>
        )}
        {job.run_on.length > 0 && (
          <Fact name="Required labels">
            <Foreign text={job.run_on.join(", ")} />
          </Fact>
        )}
        {job.pair && <Fact name="Directions">Both</Fact>}
        {job.after.length > 0 && (
          <Fact name="Starts after">
            <Foreign text={job.after.join(", ")} />
          </Fact>
        )}
        <Fact name="Added">
          <Clock time={job.start_time} />
        </Fact>
      </dl>
      <h3>Document as submitted</h3>
      <Problem error={error} />
      {stored === undefined ? (
        <p class="section-note">
          {job.doc_id === null
            ? "The job was started with POST /_replicate and has no document."
            : "You are not allowed to read the document."}
        </p>
      ) : (
        <pre>{visibleJson(masked(stored))}</pre>
      )}
    </section>
  );
}

/** The tags of a job, as links to the jobs with the same tag. */
function TagLinks({ tags }: Pick<Job, "tags">) {
  return (
    <>
      {Object.entries(tags).map(([name, value]) => (
        <div key={name}>
          <a href={linkTo(["jobs"], { tag: `${name}:${value}` })}>
            <Foreign text={`${name}:${value}`} />
          </a>
        </div>
      ))}
    </>
  );
}
