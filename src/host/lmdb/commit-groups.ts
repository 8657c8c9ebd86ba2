/**
 * Divides the waiting requests into groups, each of which is committed in one LMDB transaction.
 *
 * Short and long requests are in different groups, which take turns. A short request waits for at
 * most one group of long requests, and an endless stream of short requests does not delay a long
 * one. Requests that wait at the same time are concurrent, so any order of their commits is
 * serializable.
 */
import type { PackedRequest } from "./messages.ts";

/**
 * Maximum number of requests in a group. Bounds the time for which a group holds the inter-process
 * lock.
 */
const GROUP_COUNT_MAX = 1_024;
const GROUP_BYTES_MAX = 16_000_000;
/**
 * Maximum number of mutations in a group. Each mutation can dirty a separate page, which is held in
 * memory until the group is written. A group of long requests is limited to one transaction of
 * `_bulk_docs` (500 new documents): with four times as many, 5 to 10 % more documents would be
 * written per second, but other requests would wait twice as long (`bench/large/documents.mjs`).
 */
const GROUP_MUTATIONS_MAX = { short: 4_000, long: 1_000 };

/** Maximum size of a short request, such as a change of a job or a single document. */
const SHORT_MUTATIONS_MAX = 200;
const SHORT_BYTES_MAX = 65_536;

export class CommitGroups {
  readonly #short: PackedRequest[] = [];
  readonly #long: PackedRequest[] = [];
  #wasShort = false;

  add(requests: readonly PackedRequest[]): void {
    for (const request of requests) (isShort(request) ? this.#short : this.#long).push(request);
  }

  /**
   * Removes and returns the next group, in order of arrival; undefined if no requests are waiting.
   * The request that reaches a bound is the last of its group.
   */
  next(): PackedRequest[] | undefined {
    const isShortNext = this.#long.length === 0 || (this.#short.length > 0 && !this.#wasShort);
    this.#wasShort = isShortNext;
    const waiting = isShortNext ? this.#short : this.#long;
    const mutationCountMax = GROUP_MUTATIONS_MAX[isShortNext ? "short" : "long"];
    let byteCount = 0;
    let mutationCount = 0;
    const isOver = ({ mutations, mutationCount: count }: PackedRequest): boolean => {
      byteCount += mutations.length;
      mutationCount += count;
      return byteCount >= GROUP_BYTES_MAX || mutationCount >= mutationCountMax;
    };
    const last = waiting.findIndex((each, index) => isOver(each) || index + 1 === GROUP_COUNT_MAX);
    const group = waiting.splice(0, last < 0 ? waiting.length : last + 1);
    return group.length === 0 ? undefined : group;
  }
}

function isShort({ mutations, mutationCount }: PackedRequest): boolean {
  return mutationCount <= SHORT_MUTATIONS_MAX && mutations.length <= SHORT_BYTES_MAX;
}
