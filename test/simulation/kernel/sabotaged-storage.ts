/** Stores that break a promise. What runs on them has to notice, or what looks at the end of it. */
import { MemoryStorage } from "../../../src/kv/index.ts";

/** Forgets what transactions have read: of two that contradict each other both commit. */
export class ForgetfulStorage extends MemoryStorage {
  override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
    return super.commit({ ...request, reads: [] }, nowMs);
  }
}

/** Carries out only the first half of some commits. */
export class TearingStorage extends MemoryStorage {
  #count = 0;

  override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
    const mutations = [...request.mutations];
    const isTorn = ++this.#count % TORN_EVERY === 0 && mutations.length > 1;
    const carriedOut = isTorn ? mutations.slice(0, mutations.length / 2) : mutations;
    return super.commit({ ...request, mutations: carriedOut }, nowMs);
  }
}

/** Says that a commit was carried out, and loses it. */
export class LosingStorage extends MemoryStorage {
  #count = 0;

  override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
    const isLost = ++this.#count % TORN_EVERY === 0;
    return super.commit(isLost ? { ...request, mutations: [] } : request, nowMs);
  }
}

const TORN_EVERY = 40;
