/** Confirmation of a command, with the number of affected jobs. */
import { useState } from "preact/hooks";
import type { BulkCommand } from "../../contract/index.ts";
import {
  type CommandResult,
  isDecision,
  previewJobs,
  runCommand,
  type Targets,
  type Undo,
  undoCommand,
} from "../api/jobs.ts";
import type { Command } from "../api/types.ts";
import { COMMAND_WORDS, resultWords } from "../base/command-words.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount, formatNumber } from "../base/format.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { Dialog, DialogButtons } from "./dialog.tsx";
import { ShortList } from "./short-list.tsx";
import { Foreign, Problem } from "./text.tsx";
import { WhyField } from "./why-field.tsx";

/** For each command, the command that undoes it, if any. */
const OPPOSITES: Readonly<Partial<Record<Command, Command>>> = { pause: "resume", resume: "pause" };

export function CommandDialog({
  command,
  targets,
  onClose,
}: {
  command: Command;
  targets: Targets;
  /** Called when the dialog closes. `isDone`: jobs might have changed. */
  onClose: (isDone: boolean) => void;
}) {
  const { verb, explanation, isFinal } = COMMAND_WORDS[command];
  const { announce } = useSurroundings();
  const [why, setWhy] = useState("");
  const [isSure, setIsSure] = useState(false);
  const [isRunning, setIsRunning] = useState(false);
  const [progress, setProgress] = useState<BulkCommand>();
  const [result, setResult] = useState<CommandResult>();
  const [error, setError] = useState<unknown>();
  const preview = useLoaded((signal) => previewOf(targets, signal), JSON.stringify(targets));

  const tell = (answer: CommandResult) => {
    const { changed, undo } = answer;
    const opposite = OPPOSITES[command];
    const text = resultWords(command, answer);
    if (opposite === undefined || changed === 0) return announce(text);
    announce(text, () => void takeBack(opposite, undo, changed, announce));
  };
  const run = async () => {
    setIsRunning(true);
    setError(undefined);
    try {
      const answer = await runCommand(command, targets, why, setProgress);
      tell(answer);
      if (answer.refusals.length === 0) onClose(true);
      else setResult(answer);
    } catch (failure) {
      setError(failure);
    } finally {
      setIsRunning(false);
    }
  };
  const count = preview.value?.count;
  const isReady = count !== undefined && count > 0 && (!isFinal || isSure) && !isRunning;
  if (result !== undefined) {
    return (
      <Dialog title={resultWords(command, result)} onClose={() => onClose(true)}>
        <ShortList label="Refusals">
          {result.refusals.map(([name, reason]) => (
            <li key={name}>
              <Foreign text={name} />: <Foreign text={reason} />
            </li>
          ))}
        </ShortList>
        <DialogButtons leave="Close" onLeave={() => onClose(true)} />
      </Dialog>
    );
  }
  return (
    <Dialog
      title={count === undefined ? verb : titleOf(verb, preview.value)}
      onClose={() => onClose(false)}
    >
      <p>{explanation}</p>
      {preview.value === undefined ? (
        <p>Counting…</p>
      ) : (
        <ShortList label="Affected jobs">
          {preview.value.names.map((name) => (
            <li key={name}>
              <Foreign text={name} />
            </li>
          ))}
          {preview.value.count > preview.value.names.length && (
            <li>and {formatNumber(preview.value.count - preview.value.names.length)} more</li>
          )}
        </ShortList>
      )}
      {isRunning && progress !== undefined && <CommandProgress command={progress} />}
      {isDecision(command) && <WhyField value={why} onChange={setWhy} />}
      {isFinal && (
        <label class="check">
          <input
            type="checkbox"
            checked={isSure}
            onChange={({ currentTarget }) => setIsSure(currentTarget.checked)}
          />
          I understand that this cannot be undone
        </label>
      )}
      <Problem error={error ?? preview.error} />
      <DialogButtons leave={keepWords(count, isFinal)} onLeave={() => onClose(false)}>
        <button
          type="button"
          class={isFinal ? "danger" : "primary"}
          disabled={!isReady}
          onClick={() => void run()}
        >
          {isRunning ? "Working…" : actWords(verb, count)}
        </button>
      </DialogButtons>
    </Dialog>
  );
}

export function CommandProgress({ command: { matched, done } }: { command: BulkCommand }) {
  return (
    <p>
      <progress max={matched} value={done} /> {formatNumber(done)} of {formatCount(matched, "job")}
    </p>
  );
}

/** Undoes a command, for exactly the jobs that it has changed. */
async function takeBack(
  opposite: Command,
  undo: Undo,
  count: number,
  announce: (text: string) => void,
): Promise<void> {
  announce("Undoing…");
  try {
    const { changed } = await undoCommand(opposite, undo);
    announce(
      `Undone. ${COMMAND_WORDS[opposite].done}: ${formatNumber(changed)} of ${formatCount(count, "job")}`,
    );
  } catch (error) {
    announce(`Undo failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

interface Preview {
  readonly count: number;
  readonly isExact: boolean;
  readonly names: readonly string[];
}

async function previewOf(targets: Targets, signal: AbortSignal): Promise<Preview> {
  if (targets.kind === "names") {
    return { count: targets.names.length, isExact: true, names: targets.names.slice(0, 5) };
  }
  const { count, isExact, first } = await previewJobs(targets.query, signal);
  return { count, isExact, names: first.map(({ name }) => name) };
}

/** Returns the label of the button that closes the dialog without a command. */
function keepWords(count: number | undefined, isFinal = false): string {
  if (!isFinal) return "Close";
  return count === 1 ? "Keep it" : "Keep them";
}

/** Returns the label of the button that runs the command, with the number of jobs. */
function actWords(verb: string, count: number | undefined): string {
  return count === undefined ? verb : `${verb} ${formatCount(count, "job")}`;
}

function titleOf(verb: string, preview: Preview | undefined): string {
  if (preview === undefined) return verb;
  return `${verb} ${preview.isExact ? "" : "more than "}${formatCount(preview.count, "job")}?`;
}
