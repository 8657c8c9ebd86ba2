/**
 * Stores that break a guarantee. Either the code that uses the store or the final check has to
 * detect the broken guarantee.
 */
import { MemoryStorage } from "../../../src/kv/index.ts";

/** Forgets the reads of transactions, so that two conflicting transactions both commit. */
export class ForgetfulStorage extends MemoryStorage {
  override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
    return super.commit({ ...request, reads: [] }, nowMs);
  }
}

/** Applies only the first half of some commits. */
export class TearingStorage extends MemoryStorage {
  #count = 0;

  override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
    const mutations = [...request.mutations];
    const isTorn = ++this.#count % TORN_EVERY === 0 && mutations.length > 1;
    const carriedOut = isTorn ? mutations.slice(0, mutations.length / 2) : mutations;
    return super.commit({ ...request, mutations: carriedOut }, nowMs);
  }
}

/** Acknowledges a commit, but loses it. */
export class LosingStorage extends MemoryStorage {
  #count = 0;

  override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
    const isLost = ++this.#count % TORN_EVERY === 0;
    return super.commit(isLost ? { ...request, mutations: [] } : request, nowMs);
  }
}

const TORN_EVERY = 40;
