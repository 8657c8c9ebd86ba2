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
    explanation: "A job that waits after a failure, or that has ended, runs as soon as possible.",
    unneeded: "running",
    refused: "paused: resume it",
  },
  pause: {
    verb: "Pause",
    done: "Paused",
    explanation: "A running job writes a checkpoint first. Nothing runs until it is resumed.",
    unneeded: "paused already",
    refused: "ended",
  },
  resume: {
    verb: "Resume",
    done: "Resumed",
    explanation: "A paused job runs as soon as possible.",
    unneeded: "not paused",
  },
  reset: {
    verb: "Reset",
    done: "Reset",
    explanation:
      "Starts from the beginning of the source and ignores checkpoints. Statistics are reset.",
    unneeded: "gone",
    isFinal: true,
  },
  cancel: {
    verb: "Delete",
    done: "Deleted",
    explanation: "Cancels and removes the job. The document of a persistent job is deleted.",
    unneeded: "gone",
    isFinal: true,
  },
  retry_failures: {
    verb: "Retry documents",
    done: "Requested",
    explanation: "Retries the failed documents.",
    unneeded: "without failed documents",
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
  const { verb, done, unneeded, refused = "in another state" } = COMMAND_WORDS[command];
  const counts = [
    [matched - changed - failed, unneeded],
    [failed, refused],
  ] as const;
  const others = counts
    .filter(([count]) => count > 0)
    .map(([count, words]) => `${formatNumber(count)} ${words}`)
    .join(", ");
  if (matched === 0) return `No job to ${verb.toLowerCase()}`;
  if (changed === 0) return `Nothing to ${verb.toLowerCase()}: ${others}`;
  const text = `${done}: ${formatNumber(changed)} of ${formatCount(matched, "job")}`;
  return others === "" ? text : `${text} (${others})`;
}
