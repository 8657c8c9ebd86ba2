/**
 * A snapshot of a WebAssembly instance's memory. Restoring it is faster than rebuilding the
 * contents, and removes all traces of code that ran since.
 */

/** A `WebAssembly.Memory`. Its buffer is replaced when the memory grows. */
interface InstanceMemory {
  readonly buffer: ArrayBuffer;
}

interface Range {
  readonly start: number;
  readonly end: number;
}

const NOTHING = new Uint8Array(0);

export class MemoryImage {
  readonly #memory: InstanceMemory;
  /** Unused stack, which is not saved. */
  readonly #gap: Range;
  #low = NOTHING;
  #high = NOTHING;
  #memoryBytes = 0;

  /**
   * `first` is an earlier image of the same memory. The first image of a memory must be created
   * before the instance runs code: the longest sequence of zeros is then the unused stack.
   */
  constructor(memory: InstanceMemory, first?: MemoryImage) {
    this.#memory = memory;
    this.#gap = first === undefined ? longestZeros(memory) : first.#gap;
    this.take();
  }

  /** Total size of the instance's memory and the image. */
  get byteLength(): number {
    return this.#memory.buffer.byteLength + this.#low.length + this.#high.length;
  }

  /** Whether the memory has grown since the image was created. Memory never shrinks. */
  get hasGrown(): boolean {
    return this.#memory.buffer.byteLength > this.#memoryBytes;
  }

  /** Replaces the image with the current contents. */
  take(): void {
    const bytes = new Uint8Array(this.#memory.buffer);
    this.#memoryBytes = bytes.length;
    this.#low = bytes.slice(0, this.#gap.start);
    this.#high = bytes.slice(this.#gap.end, endOfContents(this.#memory));
  }

  /**
   * Restores the image. Does not clear the memory after the image, because allocators initialize
   * what they allocate.
   */
  restore(): void {
    const bytes = new Uint8Array(this.#memory.buffer);
    bytes.set(this.#low);
    bytes.set(this.#high, this.#gap.end);
  }

  /**
   * Restores the image and clears the memory after it, so that the next image excludes old
   * contents.
   */
  restoreAll(): void {
    this.restore();
    const end = this.#gap.end + this.#high.length;
    new Uint8Array(this.#memory.buffer).fill(0, end, Math.max(end, endOfContents(this.#memory)));
  }
}

function wordsOf({ buffer }: InstanceMemory): BigUint64Array {
  return new BigUint64Array(buffer);
}

/** Returns the address after the last nonzero byte. */
function endOfContents(memory: InstanceMemory): number {
  const words = wordsOf(memory);
  let end = words.length;
  while (end > 0 && words[end - 1] === 0n) end--;
  return end * 8;
}

function longestZeros(memory: InstanceMemory): Range {
  const words = wordsOf(memory).subarray(0, endOfContents(memory) / 8);
  let longest = { start: 0, end: 0 };
  let start = 0;
  for (let index = 0; index < words.length; index++) {
    if (words[index] === 0n) continue;
    if (index - start > longest.end - longest.start) longest = { start, end: index };
    start = index + 1;
  }
  return { start: longest.start * 8, end: longest.end * 8 };
}
