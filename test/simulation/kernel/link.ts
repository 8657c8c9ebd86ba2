/**
 * The network link between two parties. Several faults can close each direction independently. A
 * direction is open again when all of these faults are over.
 */

/** A gate that faults can close. Callers that arrive while it is closed wait until it opens. */
export class Gate {
  readonly #closings = new Set<symbol>();
  #waiting: (() => void)[] = [];

  get isOpen(): boolean {
    return this.#closings.size === 0;
  }

  /** Closes the gate. Returns a function that ends this closure, and that can be called twice. */
  close(): () => void {
    const closing = Symbol("closing");
    this.#closings.add(closing);
    return () => {
      if (this.#closings.delete(closing) && this.isOpen) this.#release();
    };
  }

  /** Opens the gate, even if several faults have closed it. */
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

/** Messages that a cut loses: requests, responses, or both. */
export const CUTS = ["requests", "answers", "both"] as const;
export type Cut = (typeof CUTS)[number];

export class Link {
  readonly requests = new Gate();
  readonly answers = new Gate();

  /** Cuts the link. Returns a function that heals this cut, and that can be called twice. */
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
