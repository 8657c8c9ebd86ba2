/**
 * A slab allocator for small byte arrays. Typed arrays of more than 64 bytes get a separate
 * allocation from the engine, which takes ten times as long and burdens the garbage collector.
 * Memory is never reused. A long-lived array keeps its slab alive, so large arrays are allocated
 * separately.
 */
const SLAB_BYTES = 65_536;
/** Size up to which the JavaScript engine stores the bytes within the array object. */
const INNER_BYTES_MAX = 64;
const SHARED_BYTES_MAX = 4_096;

let slab = new ArrayBuffer(0);
let usedBytes = 0;

/** Allocates `length` bytes. */
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

/** Copies the bytes from `begin` up to, but not including, `end`. */
export function cutBytes(source: Uint8Array, begin: number, end: number): Uint8Array {
  const length = end - begin;
  if (length <= INNER_BYTES_MAX || length > SHARED_BYTES_MAX) {
    return Uint8Array.prototype.slice.call(source, begin, end);
  }
  const copy = takeBytes(length);
  copy.set(source.subarray(begin, end));
  return copy;
}
