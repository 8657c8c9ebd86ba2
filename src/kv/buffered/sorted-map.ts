/**
 * A map with sorted string keys and cheap copies, implemented as a B+ tree. A map and its clones
 * share nodes. A write copies only the shared nodes on the path to its leaf. Used for the memory
 * engine's snapshots and for a transaction's writes.
 *
 * Each map has a token, and each node has the token of the map that is allowed to change it in
 * place. After cloning, both maps have new tokens, so neither is allowed to change the shared
 * nodes.
 *
 * Leaves that are half empty after deletes are not merged; only an empty leaf is removed (Johnson
 * and Shasha, *B-trees with inserts and deletes: why free-at-empty is better than merge-at-half*,
 * 1993).
 */

/** Number of entries at which a node is split. A write after a clone copies one node per level. */
const NODE_ENTRY_COUNT_MAX = 64;
/**
 * Fraction of the entries that a split keeps in the left node. Keys mostly arrive in ascending
 * order, so the left node rarely changes again and should be nearly full.
 */
const FULL_RATIO = 0.9;

interface Leaf<Value> {
  readonly kind: "leaf";
  readonly owner: object;
  readonly keys: string[];
  readonly values: Value[];
}

interface Branch<Value> {
  readonly kind: "branch";
  readonly owner: object;
  /**
   * Lower bound of each child: its keys are at or after its bound and before the next child's
   * bound. The first bound is unused.
   */
  readonly bounds: string[];
  readonly children: Node<Value>[];
}

type Node<Value> = Leaf<Value> | Branch<Value>;

/** The right half of a split node. */
interface Split<Value> {
  readonly bound: string;
  readonly node: Node<Value>;
}

export class SortedMap<Value> {
  #owner: object = {};
  #root: Node<Value> = { kind: "leaf", owner: this.#owner, keys: [], values: [] };
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** An independent map with the same entries. */
  clone(): SortedMap<Value> {
    const copy = new SortedMap<Value>();
    copy.#root = this.#root;
    copy.#size = this.#size;
    this.#owner = {};
    return copy;
  }

  get(key: string): Value | undefined {
    const { keys, values } = this.#leaf(key);
    const at = lowerBound(keys, key);
    return keys[at] === key ? values[at] : undefined;
  }

  set(key: string, value: Value): void {
    const root = this.#own(this.#root);
    const right = this.#insert(root, key, value, true);
    if (right === undefined) {
      this.#root = root;
      return;
    }
    this.#root = {
      kind: "branch",
      owner: this.#owner,
      bounds: ["", right.bound],
      children: [root, right.node],
    };
  }

  delete(key: string): boolean {
    const { keys } = this.#leaf(key);
    if (keys[lowerBound(keys, key)] !== key) return false;
    let root = this.#own(this.#root);
    this.#remove(root, key);
    while (root.kind === "branch" && root.children.length === 1) {
      root = root.children[0] as Node<Value>;
    }
    this.#root = root;
    this.#size--;
    return true;
  }

  /**
   * Deletes every key from `begin` (inclusive) to `end` (exclusive). Returns the number of deleted
   * keys.
   */
  deleteRange(begin: string, end: string): number {
    const keys: string[] = [];
    this.scan(begin, end, (key) => {
      keys.push(key);
      return true;
    });
    for (const key of keys) this.delete(key);
    return keys.length;
  }

  /** Whether there is a key from `begin` (inclusive) to `end` (exclusive). */
  hasInRange(begin: string, end: string): boolean {
    let isFound = false;
    this.scan(begin, end, () => {
      isFound = true;
      return false;
    });
    return isFound;
  }

  /**
   * Visits the entries from `begin` (inclusive) to `end` (exclusive) in order, until `visit`
   * returns false.
   */
  scan(begin: string, end: string, visit: Visit<Value>): void {
    scanNode(this.#root, begin, end, visit);
  }

  /** Like `scan`, in descending order. */
  scanReverse(begin: string, end: string, visit: Visit<Value>): void {
    scanNodeReverse(this.#root, begin, end, visit);
  }

  /** Returns the leaf that contains `key`, or that would contain it. */
  #leaf(key: string): Leaf<Value> {
    let node = this.#root;
    while (node.kind === "branch") node = node.children[childIndex(node, key)] as Node<Value>;
    return node;
  }

  /** Returns the node if this map is allowed to change it, otherwise a copy. */
  #own(node: Node<Value>): Node<Value> {
    const owner = this.#owner;
    if (node.owner === owner) return node;
    return node.kind === "leaf"
      ? { kind: "leaf", owner, keys: node.keys.slice(), values: node.values.slice() }
      : { kind: "branch", owner, bounds: node.bounds.slice(), children: node.children.slice() };
  }

  #ownChild({ children }: Branch<Value>, index: number): Node<Value> {
    const child = this.#own(children[index] as Node<Value>);
    children[index] = child;
    return child;
  }

  /** `isLast`: the node is the rightmost of its level. */
  #insert(node: Node<Value>, key: string, value: Value, isLast: boolean): Split<Value> | undefined {
    if (node.kind === "leaf") {
      const at = lowerBound(node.keys, key);
      if (node.keys[at] === key) {
        node.values[at] = value;
        return undefined;
      }
      node.keys.splice(at, 0, key);
      node.values.splice(at, 0, value);
      this.#size++;
    } else {
      const index = childIndex(node, key);
      const isLastChild = isLast && index === node.children.length - 1;
      const right = this.#insert(this.#ownChild(node, index), key, value, isLastChild);
      if (right === undefined) return undefined;
      node.bounds.splice(index + 1, 0, right.bound);
      node.children.splice(index + 1, 0, right.node);
    }
    return this.#split(node, isLast);
  }

  #split(node: Node<Value>, isLast: boolean): Split<Value> | undefined {
    const count = node.kind === "leaf" ? node.keys.length : node.children.length;
    if (count < NODE_ENTRY_COUNT_MAX) return undefined;
    const at = isLast ? Math.floor(count * FULL_RATIO) : count >> 1;
    const owner = this.#owner;
    if (node.kind === "leaf") {
      const keys = node.keys.splice(at);
      const right = { kind: "leaf" as const, owner, keys, values: node.values.splice(at) };
      return { bound: keys[0] as string, node: right };
    }
    const bounds = node.bounds.splice(at);
    const right = { kind: "branch" as const, owner, bounds, children: node.children.splice(at) };
    return { bound: bounds[0] as string, node: right };
  }

  /** Removes a key that exists. Returns whether the node is now empty. */
  #remove(node: Node<Value>, key: string): boolean {
    if (node.kind === "leaf") {
      const at = lowerBound(node.keys, key);
      node.keys.splice(at, 1);
      node.values.splice(at, 1);
      return node.keys.length === 0;
    }
    const index = childIndex(node, key);
    if (this.#remove(this.#ownChild(node, index), key)) {
      node.bounds.splice(index, 1);
      node.children.splice(index, 1);
    }
    return node.children.length === 0;
  }
}

type Visit<Value> = (key: string, value: Value) => boolean;

/** Scans the node's entries. Returns whether to continue with the next node. */
function scanNode<Value>(
  node: Node<Value>,
  begin: string,
  end: string,
  visit: Visit<Value>,
): boolean {
  if (node.kind === "branch") {
    for (let index = childIndex(node, begin); index < node.children.length; index++) {
      if (!scanNode(node.children[index] as Node<Value>, begin, end, visit)) return false;
    }
    return true;
  }
  for (let at = lowerBound(node.keys, begin); at < node.keys.length; at++) {
    const key = node.keys[at] as string;
    if (key >= end || !visit(key, node.values[at] as Value)) return false;
  }
  return true;
}

/** Scans the node's entries in reverse. Returns whether to continue with the preceding node. */
function scanNodeReverse<Value>(
  node: Node<Value>,
  begin: string,
  end: string,
  visit: Visit<Value>,
): boolean {
  if (node.kind === "branch") {
    for (let index = childIndex(node, end); index >= 0; index--) {
      if (!scanNodeReverse(node.children[index] as Node<Value>, begin, end, visit)) return false;
    }
    return true;
  }
  for (let at = lowerBound(node.keys, end) - 1; at >= 0; at--) {
    const key = node.keys[at] as string;
    if (key < begin || !visit(key, node.values[at] as Value)) return false;
  }
  return true;
}

/**
 * Index of the only child that can contain `key`: the last child whose bound is not after `key`.
 */
function childIndex<Value>({ bounds }: Branch<Value>, key: string): number {
  let low = 1;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((bounds[middle] as string) <= key) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Index of the first key that is not before `key`. */
export function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
