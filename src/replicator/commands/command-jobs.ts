/**
 * Continues commands for many jobs in the background, after the requests that started them have
 * returned.
 */
import { currentSec } from "../../base/index.ts";
import {
  type HeartbeatParts,
  type HeldJob,
  isJobLost,
  type Job,
  type SlotlessJobType,
  whileAlive,
} from "../../jobs/index.ts";
import { COMMAND_TYPE } from "../job-watching/parked-jobs.ts";
import type { BulkCommands } from "./bulk-commands.ts";

/** Pause before a command is continued after an error. */
const PAUSE_SEC = 5;

export interface CommandJobsParts extends HeartbeatParts {
  readonly bulk: Pick<BulkCommands, "finish">;
}

export class CommandJobs implements SlotlessJobType {
  readonly type = COMMAND_TYPE;
  readonly #parts: CommandJobsParts;

  constructor(parts: CommandJobsParts) {
    this.#parts = parts;
  }

  async run(held: HeldJob, { data }: Pick<Job, "data">, signal: AbortSignal): Promise<void> {
    const { runtime, kv, jobs, bulk } = this.#parts;
    const fail = (error: unknown) =>
      runtime.trace.event("replication.command-failed", {
        command: held.id,
        requestId: typeof data.requestId === "string" ? data.requestId : undefined,
        error: String(error),
      });
    let pauseSec = 0;
    try {
      await whileAlive(this.#parts, held, signal, (over) => bulk.finish(held.id, over));
    } catch (error) {
      pauseSec = PAUSE_SEC;
      fail(error);
    }
    const dueSec = currentSec(runtime.clock) + pauseSec;
    await kv
      .transact(async (tx) => {
        await jobs.resubmit(tx, held, dueSec);
        await jobs.finish(tx, held, data);
      })
      .catch((error: unknown) => {
        // Not a failure: the command has ended and its job was removed, or another node has the
        // job.
        if (!isJobLost(error)) fail(error);
      });
  }
}
