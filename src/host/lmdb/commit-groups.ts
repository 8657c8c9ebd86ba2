/** Groups of requests that are committed together, in one transaction of LMDB. */
import type { PackedRequest } from "./messages.ts";

/** A group holds the lock between processes, so it is bounded. */
const GROUP_COUNT_MAX = 1_024;
const GROUP_BYTES_MAX = 16_000_000;
/** Each may have a page of its own to be changed, which is in memory until all are written, and is kept for the next ones. */
const GROUP_MUTATIONS_MAX = 8_000;

/** The requests in their order; one that is larger than a group may be is the last of its group. */
export function* commitGroups(requests: readonly PackedRequest[]): Iterable<PackedRequest[]> {
  let group: PackedRequest[] = [];
  let byteCount = 0;
  let mutationCount = 0;
  for (const request of requests) {
    group.push(request);
    byteCount += request.mutations.length;
    mutationCount += request.mutationCount;
    const isFull = byteCount >= GROUP_BYTES_MAX || mutationCount >= GROUP_MUTATIONS_MAX;
    if (group.length >= GROUP_COUNT_MAX || isFull) {
      yield group;
      group = [];
      byteCount = 0;
      mutationCount = 0;
    }
  }
  if (group.length > 0) yield group;
}
