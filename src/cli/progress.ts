/** Progress on a terminal: a bar that is drawn over itself; plain lines, now and then, where nobody watches. */

const BAR_WIDTH = 30;
/** A terminal is redrawn so often; a log gets a line so often. */
const DRAW_INTERVAL_MS = 100;
const LINE_INTERVAL_MS = 2000;

export class Progress {
  readonly #label: string;
  readonly #output: NodeJS.WriteStream;
  readonly #startedAtMs = Date.now();
  #shownAtMs = 0;

  constructor(label: string, output: NodeJS.WriteStream = process.stdout) {
    this.#label = label;
    this.#output = output;
  }

  /** `total` is 0 while it is not known. */
  show(done: number, total: number): void {
    const nowMs = Date.now();
    const intervalMs = this.#output.isTTY ? DRAW_INTERVAL_MS : LINE_INTERVAL_MS;
    if (nowMs - this.#shownAtMs < intervalMs) return;
    if (this.#shownAtMs === 0 && !this.#output.isTTY) {
      this.#shownAtMs = nowMs;
      return;
    }
    this.#shownAtMs = nowMs;
    if (this.#output.isTTY) this.#output.write(`\r\u001b[2K${this.#bar(done, total)}`);
    else this.#output.write(`${this.#figures(done, total)}\n`);
  }

  /** The last line, which stays. */
  end(done: number): void {
    if (this.#output.isTTY) this.#output.write(`\r\u001b[2K${this.#bar(done, done)}\n`);
    else this.#output.write(`${this.#figures(done, done)}\n`);
  }

  #bar(done: number, total: number): string {
    const filled = total === 0 ? 0 : Math.min(BAR_WIDTH, Math.round((done / total) * BAR_WIDTH));
    const bar = "█".repeat(filled) + "░".repeat(BAR_WIDTH - filled);
    return `${this.#label.padEnd(28)} ${bar} ${this.#rate(done, total)}`;
  }

  #figures(done: number, total: number): string {
    return `${this.#label}: ${this.#rate(done, total)}`;
  }

  #rate(done: number, total: number): string {
    const seconds = Math.max(0.001, (Date.now() - this.#startedAtMs) / 1000);
    const of = total > done ? ` of ${total}` : "";
    return `${done}${of} documents, ${Math.round(done / seconds)}/s`;
  }
}
