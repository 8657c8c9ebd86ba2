/** Groups requests to be committed in one LMDB transaction. */
import type { PackedRequest } from "./messages.ts";

/**
 * Maximum number of requests in a group. Bounds the time for which a group holds the inter-process
 * lock.
 */
const GROUP_COUNT_MAX = 1_024;
const GROUP_BYTES_MAX = 16_000_000;
/**
 * Maximum number of mutations in a group. Each mutation may dirty a separate page, which is held in
 * memory until the group is written.
 */
const GROUP_MUTATIONS_MAX = 8_000;

/** Yields groups in request order. A request exceeding the bounds is the last of its group. */
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
