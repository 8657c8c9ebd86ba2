/** Signals that stop a command: Ctrl-C, a service manager, and a closed terminal. */
const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Calls `stop` at the first signal of each kind. A second signal of the same kind ends the process.
 * Returns a function that removes the handlers.
 */
export function onStopSignal(stop: () => void): () => void {
  const onSignal = (signal: NodeJS.Signals): void => {
    if (signal === "SIGHUP" && hasTerminal()) endBySignal();
    stop();
  };
  for (const signal of STOP_SIGNALS) process.once(signal, onSignal);
  return () => {
    for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
  };
}

function hasTerminal(): boolean {
  return [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
}

/**
 * Ends the process by SIGHUP on exit. An ordinary exit would reset the terminal, and Node.js 20
 * fails with a stack trace if the terminal is closed.
 */
function endBySignal(): void {
  process.once("exit", () => process.kill(process.pid, "SIGHUP"));
}
