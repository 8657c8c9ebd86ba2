/** Small text components. */
import type { ComponentChildren } from "preact";
import { isLagUnknown, type Job, type StatedJob, stateWord } from "../../contract/index.ts";
import { RequestError } from "../api/request.ts";
import { useSurroundings } from "../base/context.ts";
import { formatDistance, formatDuration, formatTime, visibleText } from "../base/format.ts";
import { linkTo } from "../base/view.ts";

/** Text from outside, such as an id, address or error, isolated in its own element. */
export function Foreign({ text, className }: { text: string; className?: string }) {
  const shown = visibleText(text);
  return (
    <bdi class={className} title={shown}>
      {shown}
    </bdi>
  );
}

/**
 * Text on one line, split at its last slash. If the text is too long, the end of each part stays
 * visible, because names and addresses differ at the end.
 */
export function Ends({ text }: { text: string }) {
  const shown = visibleText(text);
  const split = shown.lastIndexOf("/", shown.length - 2) + 1;
  return (
    <bdi class="ends" title={shown}>
      <span>{shown.slice(0, split)}</span>
      <span>
        <bdi dir="ltr">{shown.slice(split)}</bdi>
      </span>
    </bdi>
  );
}

/** Relative time, with the absolute time as a tooltip. */
export function Moment({ time }: { time: string | null }) {
  const { nowMs, timeZone } = useSurroundings();
  if (time === null) return <span class="nothing">–</span>;
  return (
    <time dateTime={time} title={formatTime(time, timeZone)}>
      {formatDistance(time, nowMs)}
    </time>
  );
}

/** A value, or *Unknown* if it is null or undefined. */
export function Proven({ value }: { value: ComponentChildren }) {
  return value ?? <span class="nothing">Unknown</span>;
}

/** The lag of a job; a dash for a job that is paused or has ended. */
export function Lag({ job }: { job: Pick<Job, "lag_sec" | "paused" | "state"> }) {
  if (isLagUnknown(job)) return <Proven value={null} />;
  if (job.lag_sec === null) return <span class="nothing">–</span>;
  return <>{formatDuration(job.lag_sec)}</>;
}

/** Absolute time. */
export function Clock({ time }: { time: string }) {
  const { timeZone } = useSurroundings();
  return <time dateTime={time}>{formatTime(time, timeZone)}</time>;
}

/** Time of day, with the full time as a tooltip. */
export function ClockOfDay({ time }: { time: string }) {
  const { timeZone } = useSurroundings();
  const whole = formatTime(time, timeZone);
  return (
    <time dateTime={time} title={whole}>
      {whole.replace(/^.*, /, "")}
    </time>
  );
}

export function StateBadge({ job }: { job: StatedJob }) {
  const word = stateWord(job);
  return <span class={`badge badge-${word}`}>{word}</span>;
}

export function JobLink({ job }: { job: Pick<Job, "name"> }) {
  const { name } = job;
  return (
    // Without the label, a screen reader would read the name's two parts as two words.
    <a class="job-link" href={linkTo(["jobs", name])} aria-label={visibleText(name)}>
      <Ends text={name} />
    </a>
  );
}

/** Shows the error of a request made by the dashboard itself. */
export function Problem({ error }: { error: unknown }) {
  if (error === undefined) return null;
  const text = error instanceof Error ? error.message : String(error);
  const code = error instanceof RequestError && error.status > 0 ? ` (${error.status})` : "";
  return (
    <p class="problem" role="alert">
      <Foreign text={`${text}${code}`} />
    </p>
  );
}

/** A labelled value in a list. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
