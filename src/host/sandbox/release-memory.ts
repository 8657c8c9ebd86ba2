/** Memory that a call came with, let go in its thread. */
import { MessageChannel } from "node:worker_threads";

const { port1: nowhere } = new MessageChannel();
nowhere.close();

/**
 * Frees it at once: what is sent to a closed port belongs to nobody. Left to the garbage collector it would lie about, since a thread
 * makes few objects, and seldom collects.
 */
export function releaseMemory(memory: readonly ArrayBuffer[]): void {
  if (memory.length > 0) nowhere.postMessage(undefined, memory);
}
