/** What asks a command to stop: Ctrl-C, a service manager, and a terminal that is closed. */
const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Calls `stop` at the first of each of them; the second of a kind ends the process. Returns what ends that. */
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

/** When all is done: an exit would set the terminal back, and Node.js 20 fails with a stack trace where that is gone. */
function endBySignal(): void {
  process.once("exit", () => process.kill(process.pid, "SIGHUP"));
}
