/** Chance from the machine. Nothing here can be foreseen, so forks need no labels. */
import { randomBytes, randomInt } from "node:crypto";
import type { Random } from "../base/index.ts";

export class SystemRandom implements Random {
  integer(limit: number): number {
    return randomInt(limit);
  }

  ratio(): number {
    return Math.random();
  }

  bytes(byteCount: number): Uint8Array {
    // A copy: small buffers of Node.js share one pool, which would stay alive with each of them.
    return new Uint8Array(randomBytes(byteCount));
  }

  fork(): Random {
    return this;
  }
}
