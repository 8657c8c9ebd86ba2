/** Starts this program as a child process, whose channel closes when the parent exits. */
import { fork } from "node:child_process";

export interface ChildProgram {
  /** Resolves with a description of how the child ended, or why it could not be started. */
  readonly ended: Promise<string>;
  /** Asks the child to stop. Has no effect after the child has ended. */
  stop(): void;
}

/** Runs the current script as a child process. Passes the child's messages to `listener`. */
export function startChildProgram(
  arguments_: readonly string[],
  environment: Readonly<Record<string, string>>,
  listener: (message: unknown) => void,
): ChildProgram {
  const script = process.argv[1];
  if (script === undefined)
    throw new Error("Starting a child requires that this program was started from a script");
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

/** Returns a function that sends messages to the parent, if this is a child. */
export function parentListener(): ((message: unknown) => void) | undefined {
  if (process.channel === undefined) return undefined;
  return (message) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
}

/** Calls `callback` once, when the parent exits. Has no effect in a program that is not a child. */
export function onParentGone(callback: () => void): void {
  if (process.channel === undefined) return;
  process.once("disconnect", callback);
  // The channel alone must not keep the process alive.
  process.channel.unref();
}
