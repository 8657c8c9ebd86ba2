/** What lies between two parties. Either way can be closed by itself, and by several faults at once: it is open when all of them are over. */

/** Who comes while it is closed passes when it opens. */
export class Gate {
  readonly #closings = new Set<symbol>();
  #waiting: (() => void)[] = [];

  get isOpen(): boolean {
    return this.#closings.size === 0;
  }

  /** Closes it; the function that is returned takes that back, and is safe to call twice. */
  close(): () => void {
    const closing = Symbol("closing");
    this.#closings.add(closing);
    return () => {
      if (this.#closings.delete(closing) && this.isOpen) this.#release();
    };
  }

  /** Opens it, whoever closed it. */
  open(): void {
    this.#closings.clear();
    this.#release();
  }

  async passed(): Promise<void> {
    while (!this.isOpen) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const pass of waiting) pass();
  }
}

/** Which ways are cut: requests get lost, or answers, or both. */
export const CUTS = ["requests", "answers", "both"] as const;
export type Cut = (typeof CUTS)[number];

export class Link {
  readonly requests = new Gate();
  readonly answers = new Gate();

  /** Cuts it; the function that is returned heals this cut, and is safe to call twice. */
  cut(cut: Cut): () => void {
    const heals: (() => void)[] = [];
    if (cut !== "answers") heals.push(this.requests.close());
    if (cut !== "requests") heals.push(this.answers.close());
    return () => {
      for (const heal of heals) heal();
    };
  }

  heal(): void {
    this.requests.open();
    this.answers.open();
  }
}
