/** Progress display: a redrawn bar on a terminal, plain lines at intervals otherwise. */
import { columnsOf } from "./width.ts";

/** Layouts by minimum terminal width. The remaining width is used for the numbers. */
const LAYOUTS = [
  { columnsMin: 120, labelWidth: 28, barWidth: 30 },
  { columnsMin: 60, labelWidth: 0, barWidth: 10 },
  { columnsMin: 0, labelWidth: 0, barWidth: 0 },
] as const;
/** Redraw interval on a terminal. */
const DRAW_INTERVAL_MS = 100;
/** Interval of progress lines in a log. */
const LINE_INTERVAL_MS = 2000;

/** Clears the line. These are bytes, because the outputs escape control characters in text. */
const CLEAR_LINE = Buffer.from("\r\u001b[2K");

/** Additional numbers, shown after the number of documents if known. */
export interface ProgressFigures {
  /** Bytes transferred, in both directions. */
  readonly byteCount?: number;
  readonly failureCount?: number;
  /** Whether a continuous replication has copied everything and waits for changes. */
  readonly isWaiting?: boolean;
}

export class Progress {
  readonly #label: string;
  readonly #output: NodeJS.WriteStream;
  readonly #unit: string;
  readonly #startedAtMs = Date.now();
  #shownAtMs = 0;
  #shown = "";

  /** `unit` is the plural noun for the counted items. */
  constructor(
    label: string,
    output: NodeJS.WriteStream = process.stdout,
    unit: "documents" | "databases" | "rows" | "jobs" = "documents",
  ) {
    this.#label = label;
    this.#output = output;
    this.#unit = unit;
  }

  /** Shows the progress. `total` is undefined while it is unknown. */
  show(done: number, total: number | undefined, more: ProgressFigures = {}): void {
    const nowMs = Date.now();
    const intervalMs = this.#output.isTTY ? DRAW_INTERVAL_MS : LINE_INTERVAL_MS;
    if (nowMs - this.#shownAtMs < intervalMs) return;
    if (this.#shownAtMs === 0 && !this.#output.isTTY) {
      this.#shownAtMs = nowMs;
      return;
    }
    this.#shownAtMs = nowMs;
    const text = this.#output.isTTY
      ? this.#bar(done, total, more)
      : `${this.#figures(done, total, more)}\n`;
    // A line that equals the previous one is not written again.
    if (text !== this.#shown) this.#write(text);
    this.#shown = text;
  }

  /** Writes the final line, which later output does not overwrite. */
  end(done: number, total: number | undefined, more: ProgressFigures = {}): void {
    const { isTTY } = this.#output;
    this.#write(`${isTTY ? this.#bar(done, total, more) : this.#figures(done, total, more)}\n`);
  }

  #write(text: string): void {
    if (this.#output.isTTY) this.#output.write(CLEAR_LINE);
    this.#output.write(text);
  }

  /** Formats the bar. Leaves the last column free, because a wrapped line cannot be redrawn. */
  #bar(done: number, total: number | undefined, more: ProgressFigures): string {
    const columns = columnsOf(this.#output);
    const { labelWidth, barWidth } =
      LAYOUTS.find(({ columnsMin }) => columns >= columnsMin) ?? LAYOUTS[0];
    const filled = total ? Math.min(barWidth, Math.round((done / total) * barWidth)) : 0;
    const bar = "█".repeat(filled) + "░".repeat(barWidth - filled);
    const parts = [this.#label.padEnd(labelWidth), bar, this.#rate(done, total, more)];
    return parts
      .filter((part) => part !== "")
      .join(" ")
      .slice(0, Math.max(0, columns - 1));
  }

  #figures(done: number, total: number | undefined, more: ProgressFigures): string {
    return `${this.#label}: ${this.#rate(done, total, more)}`;
  }

  #rate(
    done: number,
    total: number | undefined,
    { byteCount, failureCount = 0, isWaiting = false }: ProgressFigures,
  ): string {
    const failed = failureCount > 0 ? [`${failureCount} failed`] : [];
    if (isWaiting) return [`${done} ${this.#unit}`, ...failed, "waiting for changes"].join(", ");
    const seconds = Math.max(0.001, (Date.now() - this.#startedAtMs) / 1000);
    const pending = Math.max(0, (total ?? done) - done);
    const perSecond = done / seconds;
    const parts = [`${done} ${this.#unit}`];
    if (pending > 0) parts.push(`${pending} pending`);
    parts.push(`${Math.round(perSecond)}/s`);
    if (byteCount !== undefined) parts.push(`${(byteCount / seconds / 1e6).toFixed(1)} MB/s`);
    if (pending > 0 && perSecond > 0) parts.push(`${duration(pending / perSecond)} left`);
    return [...parts, ...failed].join(", ");
  }
}

/** A duration, such as `12 s`, `3 min 5 s` or `2 h 10 min`. */
export function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
