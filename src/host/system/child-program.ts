/**
 * Starts this program again, as a child. The channel between the two is a lifeline: when the parent is gone, however it
 * ended, the child finds the channel closed.
 */
import { fork } from "node:child_process";

export interface ChildProgram {
  /** How it ended, in words; for one that could not be started, too. */
  readonly ended: Promise<string>;
  /** Asks it to stop. Without effect when it has ended. */
  stop(): void;
}

/**
 * Runs the present script with these arguments; what the child writes goes where the parent's output goes, and what it tells its
 * parent to `listener`.
 */
export function startChildProgram(
  arguments_: readonly string[],
  environment: Readonly<Record<string, string>>,
  listener: (message: unknown) => void,
): ChildProgram {
  const script = process.argv[1];
  if (script === undefined) throw new Error("This program was not started from a script");
  const child = fork(script, arguments_, {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  child.on("message", listener);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  return {
    ended,
    stop: () => {
      child.kill("SIGTERM");
    },
  };
}

/** Tells the parent that started this program as its child; undefined for a program started otherwise. */
export function parentListener(): ((message: unknown) => void) | undefined {
  if (process.channel === undefined) return undefined;
  return (message) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
}

/** Calls back once when the parent that started this program as its child is gone. Never for a program started otherwise. */
export function onParentGone(callback: () => void): void {
  if (process.channel === undefined) return;
  process.once("disconnect", callback);
  // The channel alone is no reason to stay alive.
  process.channel.unref();
}
