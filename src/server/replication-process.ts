/**
 * A replication node in a process of its own, beside the API, so that copying never delays an answer. It is a service:
 * it is restarted with growing pauses when it dies (`supervise.ts`), and stops with the node that started it. Its jobs
 * are in the queue, and other workers take them when it dies.
 */
import type { Service } from "./supervise.ts";

/** The port through which the composition root starts a process. */
export interface ChildProcess {
  /** How it ended, in words. */
  readonly ended: Promise<string>;
  /** Asks it to stop; it may take a while. */
  stop(): void;
}

/**
 * `publicUrl` is the address of the cluster's API: a process that serves none cannot know. What the process counts comes back to
 * `onCounted`.
 */
export type StartProcess = (
  publicUrl: string,
  onCounted: (report: unknown) => void,
) => ChildProcess;

export class ReplicationProcess implements Service {
  readonly name: string;
  readonly #start: () => ChildProcess;

  /** `number` counts from 1 and tells the processes apart in the log. */
  constructor(number: number, start: () => ChildProcess) {
    this.name = `replication-process.${number}`;
    this.#start = start;
  }

  /** Throws when the process ends before it was asked to. */
  async run(signal: AbortSignal): Promise<void> {
    const child = this.#start();
    const stop = (): void => child.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const how = await child.ended;
      if (!signal.aborted) throw new Error(`The process ended: ${how}`);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }
}
