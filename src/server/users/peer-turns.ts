/**
 * Limits the password checks in progress per address, so that a flood of logins from one address
 * hardly delays other clients.
 */
import { Semaphore } from "../../base/index.ts";

/**
 * Maximum number of concurrent checks per address. Exceeds the number of hashing threads, so that
 * users behind one proxy can occupy all of these threads.
 */
const CHECKS_PER_PEER = 4;

interface Line {
  readonly semaphore: Semaphore;
  count: number;
}

export class PeerTurns {
  readonly #lines = new Map<string, Line>();

  async run<T>(peer: string, check: () => T | Promise<T>): Promise<T> {
    const line = this.#lines.get(peer) ?? { semaphore: new Semaphore(CHECKS_PER_PEER), count: 0 };
    this.#lines.set(peer, line);
    line.count++;
    try {
      return await line.semaphore.run(async () => check());
    } finally {
      line.count--;
      if (line.count === 0) this.#lines.delete(peer);
    }
  }
}
