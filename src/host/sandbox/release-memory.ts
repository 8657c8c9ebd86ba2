/** Releases transferred buffers in the receiving thread. */
import { MessageChannel } from "node:worker_threads";

const { port1: nowhere } = new MessageChannel();
nowhere.close();

/**
 * Frees the memory immediately, by transferring it to a closed message port, because these threads
 * rarely collect garbage.
 */
export function releaseMemory(memory: readonly ArrayBuffer[]): void {
  if (memory.length > 0) nowhere.postMessage(undefined, memory);
}
