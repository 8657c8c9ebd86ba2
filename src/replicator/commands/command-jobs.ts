/**
 * Continues commands for many jobs in the background, after the requests that started them have
 * returned.
 */
import { abortWith, errorCode } from "../../base/index.ts";
import {
  type HeartbeatParts,
  type HeldJob,
  type Job,
  type SlotlessJobType,
  showLife,
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
    const over = new AbortController();
    const unfollow = abortWith(signal, over);
    const life = showLife(this.#parts, held, over.signal).catch((error) => over.abort(error));
    const fail = (error: unknown) =>
      runtime.trace.event("replication.command-failed", {
        command: held.id,
        requestId: typeof data.requestId === "string" ? data.requestId : undefined,
        error: String(error),
      });
    let pauseSec = 0;
    try {
      await bulk.finish(held.id, over.signal);
    } catch (error) {
      pauseSec = PAUSE_SEC;
      fail(error);
    } finally {
      unfollow();
      over.abort(OVER);
      await life;
    }
    const dueSec = Math.floor(runtime.clock.nowMs() / 1000) + pauseSec;
    await kv
      .transact(async (tx) => {
        await jobs.resubmit(tx, held, dueSec);
        await jobs.finish(tx, held, data);
      })
      .catch((error: unknown) => {
        // Not a failure: the command has ended and its job was removed, or another node has the
        // job.
        const code = errorCode(error);
        if (code === "JOBS_HALTED" || code === "JOBS_WORKER_EXPELLED") return;
        fail(error);
      });
  }
}

/** Abort reason, created once: creating the default one costs more than the abort itself. */
const OVER = new Error("The command has ended");
