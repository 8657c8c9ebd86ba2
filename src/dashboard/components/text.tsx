/** Small text components. */
import type { ComponentChildren } from "preact";
import { type Job, type StatedJob, stateWord } from "../../contract/index.ts";
import { RequestError } from "../api/request.ts";
import { useSurroundings } from "../base/context.ts";
import { formatDistance, formatTime, visibleText } from "../base/format.ts";
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

/** A value, or *Unknown* if nothing proves it. */
export function Proven({ value }: { value: ComponentChildren }) {
  return value ?? <span class="nothing">Unknown</span>;
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
    <a class="job-link" href={linkTo(["jobs", name])}>
      <Foreign text={name} />
    </a>
  );
}

/** Error of a request made by the dashboard itself. */
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
