/** The words for commands: in buttons, dialogs and results. */
import type { Command } from "../api/types.ts";
import { formatCount, formatNumber } from "./format.ts";

interface CommandWords {
  readonly verb: string;
  readonly done: string;
  readonly explanation: string;
  /** Describes a job that the command did not need to change. */
  readonly unneeded: string;
  /** Describes a job whose state does not permit the command. */
  readonly refused?: string;
  /** Whether the command cannot be undone. */
  readonly isFinal?: boolean;
}

export const COMMAND_WORDS: Readonly<Record<Command, CommandWords>> = {
  retry: {
    verb: "Retry",
    done: "Retried",
    explanation: "Runs jobs that have ended or are waiting after a failure, as soon as possible.",
    unneeded: "running",
    refused: "must be resumed first",
  },
  pause: {
    verb: "Pause",
    done: "Paused",
    explanation:
      "Stops running jobs after they have written a checkpoint. Paused jobs do not run until they are resumed.",
    unneeded: "paused already",
    refused: "ended",
  },
  resume: {
    verb: "Resume",
    done: "Resumed",
    explanation: "Ends the pause: the jobs run again as soon as possible.",
    unneeded: "not paused",
  },
  reset: {
    verb: "Reset",
    done: "Reset",
    explanation:
      "Restarts the jobs from the beginning of the source, ignoring checkpoints, and resets their statistics.",
    unneeded: "already removed",
    isFinal: true,
  },
  cancel: {
    verb: "Delete",
    done: "Deleted",
    explanation:
      "Cancels and removes the jobs, and deletes the replication documents of persistent ones.",
    unneeded: "already removed",
    isFinal: true,
  },
  retry_failures: {
    verb: "Retry documents",
    done: "Requested",
    explanation: "Retries the documents that the jobs failed to copy.",
    unneeded: "with no failed documents",
  },
};

/** Describes what a command has changed, and why it has not changed the other jobs. */
export function resultWords(
  command: Command,
  {
    matched,
    changed,
    failed,
  }: { readonly matched: number; readonly changed: number; readonly failed: number },
): string {
  const {
    verb,
    done,
    unneeded,
    refused = "in a state that does not allow this",
  } = COMMAND_WORDS[command];
  const counts = [
    [matched - changed - failed, unneeded],
    [failed, refused],
  ] as const;
  const others = counts
    .filter(([count]) => count > 0)
    .map(([count, words]) => `${formatNumber(count)} ${words}`)
    .join(", ");
  if (matched === 0) return `No jobs to ${verb.toLowerCase()}`;
  if (changed === 0) return `Nothing to ${verb.toLowerCase()}: ${others}`;
  const text = `${done}: ${formatNumber(changed)} of ${formatCount(matched, "job")}`;
  return others === "" ? text : `${text} (${others})`;
}
