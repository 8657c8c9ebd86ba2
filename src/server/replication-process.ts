/**
 * A replication node in a separate process, so that copying never delays a response of the API. As
 * a service, it is restarted with growing pauses when it dies (`supervise.ts`), and it stops with
 * its parent. Its jobs are in the queue; when it dies, other workers take over the jobs.
 */
import type { ChildProgram } from "../host/index.ts";
import type { Service } from "./supervise.ts";

/**
 * `publicUrl` is the URL of the cluster's API, which a process without an API cannot determine.
 * `onCounted` receives the counters of the process.
 */
export type StartProcess = (
  publicUrl: string,
  onCounted: (report: unknown) => void,
) => ChildProgram;

export class ReplicationProcess implements Service {
  readonly name: string;
  readonly #start: () => ChildProgram;

  /** `number` counts from 1 and distinguishes the processes in the log. */
  constructor(number: number, start: () => ChildProgram) {
    this.name = `replication-process.${number}`;
    this.#start = start;
  }

  /** Runs the process until `signal` aborts. Throws if the process ends unexpectedly. */
  async run(signal: AbortSignal): Promise<void> {
    const child = this.#start();
    const stop = (): void => child.stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const how = await child.ended;
      if (!signal.aborted) throw new Error(`The process exited: ${how}`);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }
}
