/** Tells one loop that something happened. What happens while the loop is busy is remembered until it waits again. */
import { abortable } from "./abort.ts";

export class Notifier {
  #isNotified = false;
  #wake = (): void => {};

  notify(): void {
    this.#isNotified = true;
    this.#wake();
  }

  /**
   * Resolves when it was notified since it last resolved, however often; rejects with `signal.reason` when that aborts first. For one
   * that waits at a time.
   */
  async notified(signal: AbortSignal): Promise<void> {
    if (!this.#isNotified) {
      const notified = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await abortable(notified, signal);
    }
    this.#isNotified = false;
  }
}
