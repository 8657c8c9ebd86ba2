/**
 * Turns of the event loop for tasks that yield. A turn resumes tasks until one time slice is used
 * up, so requests and timers wait for little more than one slice, however many tasks are long.
 */
import { SLICE_MS } from "../../base/index.ts";

const waiting: (() => void)[] = [];
let isScheduled = false;

/** Resolves in a later turn of the event loop, after all tasks that already wait for a turn. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    schedule();
  });
}

function schedule(): void {
  if (!isScheduled) setImmediate(resumeTasks);
  isScheduled = true;
}

function resumeTasks(): void {
  isScheduled = false;
  const endMs = performance.now() + SLICE_MS;
  let count = waiting.length;
  const resumeNext = (): void => {
    waiting.shift()?.();
    count--;
    // Continues when the task has yielded again: Node.js runs all microtasks before the next tick.
    if (count > 0) queueMicrotask(() => process.nextTick(continueTurn));
  };
  const continueTurn = (): void => {
    if (performance.now() < endMs) resumeNext();
    else schedule();
  };
  resumeNext();
}
