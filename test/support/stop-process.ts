import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Stops a process until it receives SIGCONT. Resolves once all threads of the process are stopped.
 * It polls, because Linux does not report stopped threads.
 */
export async function stopWhollyByPolling(child: ChildProcess): Promise<void> {
  child.kill("SIGSTOP");
  const threads = `/proc/${child.pid}/task`;
  const isStill = (thread: string): boolean =>
    / T /.test(readFileSync(join(threads, thread, "stat"), "utf8"));
  while (!readdirSync(threads).every(isStill)) await sleep(1);
}
