/**
 * Cuts copies of bytes from shared memory. From 65 bytes on, the engine gives an array memory of its own, which takes
 * it ten times as long and is work for the garbage collector. No memory is used twice. An array that is kept for long
 * keeps its slab, so large arrays get memory of their own.
 */
const SLAB_BYTES = 65_536;
/** Below it an array's bytes are in the array itself. */
const INNER_BYTES_MAX = 64;
const SHARED_BYTES_MAX = 4_096;

let slab = new ArrayBuffer(0);
let usedBytes = 0;

/** Memory of so many bytes. */
export function takeBytes(length: number): Uint8Array {
  if (length <= INNER_BYTES_MAX || length > SHARED_BYTES_MAX) return new Uint8Array(length);
  if (usedBytes + length > slab.byteLength) {
    slab = new ArrayBuffer(SLAB_BYTES);
    usedBytes = 0;
  }
  const taken = new Uint8Array(slab, usedBytes, length);
  usedBytes += length;
  return taken;
}

/** A copy of the bytes from `begin` to before `end`. */
export function cutBytes(source: Uint8Array, begin: number, end: number): Uint8Array {
  const length = end - begin;
  if (length <= INNER_BYTES_MAX || length > SHARED_BYTES_MAX) {
    return Uint8Array.prototype.slice.call(source, begin, end);
  }
  const copy = takeBytes(length);
  copy.set(source.subarray(begin, end));
  return copy;
}
