/**
 * A map whose keys are strings in order, and whose copies cost nothing: chunks of some hundred entries are shared between a
 * map and its clones until one of them writes to them. Good for the memory engine's snapshots and for a transaction's writes.
 */

interface Chunk<Value> {
  keys: string[];
  values: Value[];
  owner: object;
}

/** A chunk that reaches this is split. Copying one is the price of a write after a clone. */
const CHUNK_ENTRY_COUNT_MAX = 256;

export class SortedMap<Value> {
  #chunks: Chunk<Value>[] = [];
  #owner: object = {};
  #listOwned = true;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** An independent map with the same entries. */
  clone(): SortedMap<Value> {
    const copy = new SortedMap<Value>();
    copy.#chunks = this.#chunks;
    copy.#listOwned = false;
    copy.#size = this.#size;
    this.#owner = {};
    this.#listOwned = false;
    return copy;
  }

  get(key: string): Value | undefined {
    const chunk = this.#chunks[this.#chunkIndex(key)];
    if (chunk === undefined) return undefined;
    const at = lowerBound(chunk.keys, key);
    return chunk.keys[at] === key ? chunk.values[at] : undefined;
  }

  set(key: string, value: Value): void {
    if (this.#chunks.length === 0) {
      this.#ownList().push({ keys: [key], values: [value], owner: this.#owner });
      this.#size = 1;
      return;
    }
    // Behind the last key of all is the end of the last chunk.
    const chunkIndex = Math.min(this.#chunkIndex(key), this.#chunks.length - 1);
    const chunk = this.#ownChunk(chunkIndex);
    const at = lowerBound(chunk.keys, key);
    if (chunk.keys[at] === key) {
      chunk.values[at] = value;
      return;
    }
    chunk.keys.splice(at, 0, key);
    chunk.values.splice(at, 0, value);
    this.#size++;
    if (chunk.keys.length >= CHUNK_ENTRY_COUNT_MAX) this.#split(chunkIndex);
  }

  delete(key: string): boolean {
    const chunkIndex = this.#chunkIndex(key);
    const found = this.#chunks[chunkIndex];
    if (found === undefined) return false;
    const at = lowerBound(found.keys, key);
    if (found.keys[at] !== key) return false;
    const chunk = this.#ownChunk(chunkIndex);
    chunk.keys.splice(at, 1);
    chunk.values.splice(at, 1);
    this.#size--;
    if (chunk.keys.length === 0) this.#ownList().splice(chunkIndex, 1);
    return true;
  }

  /** Deletes every key from `begin`, inclusive, to `end`, exclusive. */
  deleteRange(begin: string, end: string): void {
    let index = this.#chunkIndex(begin);
    while (index < this.#chunks.length) {
      const found = this.#chunks[index] as Chunk<Value>;
      const from = lowerBound(found.keys, begin);
      const to = lowerBound(found.keys, end);
      const lastOne = to < found.keys.length;
      if (from < to) {
        this.#size -= to - from;
        if (to - from === found.keys.length) {
          this.#ownList().splice(index, 1);
          continue;
        }
        const chunk = this.#ownChunk(index);
        chunk.keys.splice(from, to - from);
        chunk.values.splice(from, to - from);
      }
      if (lastOne) return;
      index++;
    }
  }

  /** Whether some key lies from `begin`, inclusive, to `end`, exclusive. */
  hasInRange(begin: string, end: string): boolean {
    const chunk = this.#chunks[this.#chunkIndex(begin)];
    if (chunk === undefined) return false;
    return (chunk.keys[lowerBound(chunk.keys, begin)] as string) < end;
  }

  /** Visits the entries from `begin`, inclusive, to `end`, exclusive, in order, until `visit` returns false. */
  scan(begin: string, end: string, visit: (key: string, value: Value) => boolean): void {
    const chunks = this.#chunks;
    for (let index = this.#chunkIndex(begin); index < chunks.length; index++) {
      const { keys, values } = chunks[index] as Chunk<Value>;
      for (let at = lowerBound(keys, begin); at < keys.length; at++) {
        const key = keys[at] as string;
        if (key >= end || !visit(key, values[at] as Value)) return;
      }
    }
  }

  /** As `scan`, from the end downwards. */
  scanReverse(begin: string, end: string, visit: (key: string, value: Value) => boolean): void {
    const chunks = this.#chunks;
    for (let index = Math.min(this.#chunkIndex(end), chunks.length - 1); index >= 0; index--) {
      const { keys, values } = chunks[index] as Chunk<Value>;
      for (let at = lowerBound(keys, end) - 1; at >= 0; at--) {
        const key = keys[at] as string;
        if (key < begin || !visit(key, values[at] as Value)) return;
      }
    }
  }

  /** The first chunk whose last key is not before `key`; the number of chunks when there is none. */
  #chunkIndex(key: string): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const keys = (this.#chunks[middle] as Chunk<Value>).keys;
      if ((keys[keys.length - 1] as string) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #ownList(): Chunk<Value>[] {
    if (!this.#listOwned) {
      this.#chunks = this.#chunks.slice();
      this.#listOwned = true;
    }
    return this.#chunks;
  }

  #ownChunk(index: number): Chunk<Value> {
    const chunks = this.#ownList();
    const chunk = chunks[index] as Chunk<Value>;
    if (chunk.owner === this.#owner) return chunk;
    const copy = {
      keys: chunk.keys.slice(),
      values: chunk.values.slice(),
      owner: this.#owner,
    };
    chunks[index] = copy;
    return copy;
  }

  #split(index: number): void {
    const chunk = this.#ownChunk(index);
    // Keys mostly arrive in ascending order; then a full left half stays full.
    const middle =
      index === this.#chunks.length - 1
        ? Math.floor(chunk.keys.length * 0.9)
        : chunk.keys.length >> 1;
    const right = {
      keys: chunk.keys.splice(middle),
      values: chunk.values.splice(middle),
      owner: this.#owner,
    };
    this.#ownList().splice(index + 1, 0, right);
  }
}

/** The index of the first key that is not before `key`. */
function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
