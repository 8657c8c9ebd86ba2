/** Events that a process logs to standard error. Tests wait for these events. */
import type { Readable } from "node:stream";
import type { EventName, Events } from "../../src/base/index.ts";
import { patience } from "./runner/patience.ts";

/** An event in the log: its name and its other members. */
type Announced = { readonly event: EventName } & Readonly<Record<string, unknown>>;

/**
 * Event of the polling request itself. Waiting for this event would repeat the request endlessly.
 */
const OWN_EVENT: EventName = "api.answered";

/**
 * Event of a single request of a replication. The consequences of such a request have their own
 * events.
 */
const REQUEST_EVENT: EventName = "http.answered";

export class AnnouncedEvents {
  readonly #events: Announced[] = [];
  #requestCount = 0;
  #isOver = false;
  #text = "";
  #wake: (() => void)[] = [];

  constructor(log: Readable) {
    let rest = "";
    log.on("data", (chunk: Buffer) => {
      const text = chunk.toString();
      this.#text += text;
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#take(line);
    });
    log.once("close", () => {
      this.#isOver = true;
      this.#wakeAll();
    });
  }

  /** The log output so far. */
  get text(): string {
    return this.#text;
  }

  /** Number of events so far, excluding events of single requests. */
  get count(): number {
    return this.#events.length - this.#requestCount;
  }

  /**
   * Resolves to the first past or future event with this name that `passes` accepts. Rejects if the
   * process ends first.
   */
  async event<Name extends EventName>(
    name: Name,
    passes: (event: Events[Name]) => boolean = () => true,
  ): Promise<Events[Name]> {
    for (let seen = 0; ; await this.#more(`the event ${name} of a process`)) {
      for (; seen < this.#events.length; seen++) {
        const event = this.#events[seen] as Announced;
        if (event.event !== name) continue;
        const fields = event as unknown as Events[Name];
        if (passes(fields)) return fields;
      }
    }
  }

  /** Resolves once the count exceeds `count`. Rejects if the process ends first. */
  async next(count: number): Promise<void> {
    while (this.count <= count) await this.#more(`event ${count + 1} of a process`);
  }

  async #more(what: string): Promise<void> {
    if (this.#isOver) throw new Error(`The process has ended: ${this.#text}`);
    await patience.until(what, new Promise<void>((resolve) => this.#wake.push(resolve)));
  }

  #take(line: string): void {
    patience.heard();
    const event = announced(line);
    if (event === undefined || event.event === OWN_EVENT) return;
    this.#events.push(event);
    if (event.event === REQUEST_EVENT) this.#requestCount++;
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

function announced(line: string): Announced | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line) as Announced;
  } catch {
    // The line is invalid, because two processes wrote to it.
    return undefined;
  }
}
