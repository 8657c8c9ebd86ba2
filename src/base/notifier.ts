/**
 * Wakes a loop. A notification that arrives while the loop is busy ends its next wait immediately.
 */
import { abortable } from "./abort.ts";

export class Notifier {
  #isNotified = false;
  #wake = (): void => {};

  notify(): void {
    this.#isNotified = true;
    this.#wake();
  }

  /**
   * Resolves when there has been a notification since the previous call resolved; rejects with
   * `signal.reason` if the signal aborts first. Supports one waiting caller.
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
