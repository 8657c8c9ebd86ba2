/**
 * The revision tree of one document.
 *
 * The tree is represented by its leaves. Each leaf refers to its ancestors, and branches share
 * ancestors. A revision id determines the whole history of the revision, because its hash is
 * derived from its parent's; nodes are therefore identified by revision ids. Grafting is a union of
 * paths, so the order in which paths arrive does not matter. Only with forged ids can two paths
 * disagree on a revision's parent; the first path then wins. Stemming drops ancestors beyond the
 * limit. The "tree" can therefore have several roots, and a later path can join these again.
 *
 * A tree belongs to the transaction that loaded it, and is modified in place.
 */
import { assert } from "../../base/index.ts";
import type { RevisionPath } from "../document.ts";
import { compareHashes, type RevisionParts } from "./revision.ts";

/** Stored state of a leaf, apart from its body. */
export interface LeafState {
  readonly deleted: boolean;
  /** Number of chunks of the body; 0 if the body is in the document record. */
  readonly bodyChunkCount: number;
  /** Stored form of a body in the document record. */
  readonly inlineBody?: Uint8Array | undefined;
  /** Number of chunks of the attachment list; 0 without attachments. */
  readonly attachmentChunkCount: number;
  /** Length of the body in bytes of UTF-8. */
  readonly bodyBytes: number;
  /** Total length of all attachments, decoded. */
  readonly attachmentBytes: number;
  /** Total length of all attachments, as stored. */
  readonly attachmentEncodedBytes: number;
}

export interface RevisionNode extends RevisionParts {
  readonly parent: RevisionNode | undefined;
  /**
   * State of a leaf. Undefined for an ancestor, whose body has been cleared or is only kept
   * temporarily.
   */
  readonly leaf: LeafState | undefined;
}

export interface LeafNode extends RevisionNode {
  readonly leaf: LeafState;
}

interface MutableNode {
  readonly generation: number;
  readonly hash: string;
  parent: MutableNode | undefined;
  leaf: LeafState | undefined;
}

/**
 * A node in the history of each leaf. A path is merged from its newest revision down, so the
 * cursors only move down: otherwise the search for each revision would begin at the leaves again.
 */
type Cursors = (MutableNode | undefined)[];

export class RevisionTree {
  #leaves: MutableNode[];

  /** Takes ownership of `leaves` and their ancestors. */
  constructor(leaves: readonly LeafNode[] = []) {
    this.#leaves = leaves as MutableNode[];
    this.#sort();
  }

  get isEmpty(): boolean {
    return this.#leaves.length === 0;
  }

  /** The leaves in CouchDB's order, beginning with the winner. */
  get leaves(): readonly LeafNode[] {
    return this.#leaves as readonly LeafNode[];
  }

  /**
   * CouchDB's winner: undeleted before deleted, then the longest history, then the largest hash.
   */
  get winner(): LeafNode | undefined {
    return this.leaves[0];
  }

  find({ generation, hash }: RevisionParts): RevisionNode | undefined {
    return this.#find(generation, hash);
  }

  /** Returns the leaf with this name, or `undefined` for an ancestor or an unknown revision. */
  findLeaf({ generation, hash }: RevisionParts): LeafNode | undefined {
    return this.leaves.find((leaf) => leaf.generation === generation && leaf.hash === hash);
  }

  /** Returns the leaves that descend from the node, or the node itself if it is a leaf. */
  leavesBelow(node: RevisionNode): LeafNode[] {
    if (node.leaf !== undefined) return [node as LeafNode];
    return this.leaves.filter((leaf) => {
      let at: RevisionNode | undefined = leaf;
      while (at !== undefined && at.generation > node.generation) at = at.parent;
      return at === node;
    });
  }

  /**
   * Classifies the effect of grafting the path. "new": adds the revision at the start of the path.
   * "ancestors": adds only ancestors, at least one of which survives stemming at `limit`. "known":
   * any other.
   */
  judge(path: RevisionPath, limit: number): "new" | "ancestors" | "known" {
    const tip = this.#find(path.start, path.hashes[0] as string);
    if (tip === undefined) return "new";
    const gap = this.#gapBelow(tip, path);
    if (gap === undefined) return "known";
    const isKept = this.leavesBelow(gap).some(
      (leaf) => leaf.generation - gap.generation + 1 < limit,
    );
    return isKept ? "ancestors" : "known";
  }

  /**
   * Merges a path into the tree. `leaf` is the state of the path's first revision, and is required
   * if that revision is new.
   */
  graft(path: RevisionPath, leaf: LeafState | undefined): void {
    const { start, hashes } = path;
    const first = this.#find(start, hashes[0] as string);
    if (first !== undefined) {
      this.#fillGap(first, path, [...this.#leaves]);
      this.#sort();
      return;
    }
    assert(leaf !== undefined, "A new revision must have a leaf state");
    const tip: MutableNode = {
      generation: start,
      hash: hashes[0] as string,
      parent: undefined,
      leaf,
    };
    this.#chain(tip, path, [...this.#leaves]);
    // `concat` instead of `push`: nearly all documents have one leaf, and a pushed-to array
    // reserves capacity for 17.
    this.#leaves = this.#leaves.concat(tip);
    this.#sort();
  }

  /** Keeps the latest `limit` revisions of every branch, and removes older ancestors. */
  stem(limit: number): void {
    assert(limit >= 1, "The limit must be at least one revision");
    // A path has at most `generation + 1` revisions.
    if (this.#leaves.every((leaf) => leaf.generation < limit)) return;
    const kept = new Set<MutableNode>();
    for (const leaf of this.#leaves) {
      let at: MutableNode | undefined = leaf;
      for (let depth = 0; depth < limit && at !== undefined; depth++) {
        kept.add(at);
        at = at.parent;
      }
    }
    for (const node of kept) {
      if (node.parent !== undefined && !kept.has(node.parent)) node.parent = undefined;
    }
  }

  /** Removes a leaf, and the ancestors that it does not share with another leaf. */
  removeLeaf(leaf: LeafNode): void {
    this.#leaves = this.#leaves.filter((other) => other !== leaf);
  }

  /**
   * Returns the ancestors of `leaf` that no leaf in the tree shares, latest first. If `leaf` has
   * been removed, these are the ancestors that were removed with it.
   */
  ancestorsOnlyOf(leaf: LeafNode): RevisionNode[] {
    const ancestors: RevisionNode[] = [];
    for (let at = leaf.parent; at !== undefined; at = at.parent) ancestors.push(at);
    const depths = new Map(ancestors.map((node, depth) => [node, depth]));
    let count = ancestors.length;
    for (const other of this.leaves) {
      let at: RevisionNode | undefined = other;
      while (at !== undefined && !depths.has(at)) at = at.parent;
      if (at !== undefined) count = Math.min(count, depths.get(at) as number);
    }
    return ancestors.slice(0, count);
  }

  /** Sets the number of chunks, at least one, in which the leaf's body is stored. */
  setBodyChunkCount({ generation, hash }: LeafNode, bodyChunkCount: number): void {
    const leaf = this.#leaves.find((each) => each.generation === generation && each.hash === hash);
    assert(leaf?.leaf !== undefined, "The leaf must belong to this tree");
    leaf.leaf = { ...leaf.leaf, bodyChunkCount, inlineBody: undefined };
  }

  #find(generation: number, hash: string): MutableNode | undefined {
    return findBelow([...this.#leaves], generation, hash);
  }

  /**
   * Follows the path from `tip` as far as the tree contains it. Returns the last node if the path
   * continues with a parent that the tree does not know; undefined otherwise.
   */
  #gapBelow(tip: MutableNode, { start, hashes }: RevisionPath): MutableNode | undefined {
    let at = tip;
    for (;;) {
      const parentIndex = start - at.generation + 1;
      if (parentIndex >= hashes.length) return undefined;
      if (at.parent === undefined) return at;
      if (at.parent.hash !== hashes[parentIndex]) return undefined;
      at = at.parent;
    }
  }

  #fillGap(known: MutableNode, path: RevisionPath, cursors: Cursors): void {
    const gap = this.#gapBelow(known, path);
    if (gap !== undefined) this.#chain(gap, path, cursors);
  }

  /**
   * Adds the ancestors that follow `node` in the path. `node` must be on the path and have no
   * parent.
   */
  #chain(node: MutableNode, path: RevisionPath, cursors: Cursors): void {
    const { start, hashes } = path;
    let at = node;
    for (let index = start - node.generation + 1; index < hashes.length; index++) {
      const generation = start - index;
      const hash = hashes[index] as string;
      const known = findBelow(cursors, generation, hash);
      if (known !== undefined) {
        at.parent = known;
        this.#becomeAncestor(known);
        this.#fillGap(known, path, cursors);
        return;
      }
      at.parent = { generation, hash, parent: undefined, leaf: undefined };
      at = at.parent;
    }
  }

  #becomeAncestor(node: MutableNode): void {
    if (node.leaf === undefined) return;
    node.leaf = undefined;
    this.#leaves = this.#leaves.filter((leaf) => leaf !== node);
  }

  #sort(): void {
    if (this.#leaves.length > 1) (this.#leaves as LeafNode[]).sort(compareLeaves);
  }
}

/** Moves the cursors down to `generation`. Returns the node with this name, if one is there. */
function findBelow(cursors: Cursors, generation: number, hash: string): MutableNode | undefined {
  for (let index = 0; index < cursors.length; index++) {
    let at = cursors[index];
    while (at !== undefined && at.generation > generation) at = at.parent;
    cursors[index] = at;
    if (at !== undefined && at.generation === generation && at.hash === hash) return at;
  }
  return undefined;
}

/** Returns the path of a node and its known ancestors, `lengthMax` revisions at most. */
export function pathOf(
  node: RevisionNode,
  lengthMax: number = Number.POSITIVE_INFINITY,
): RevisionPath {
  let length = 0;
  let at: RevisionNode | undefined = node;
  for (; at !== undefined && length < lengthMax; at = at.parent) length++;
  const hashes = new Array<string>(length);
  at = node;
  for (let index = 0; index < length && at !== undefined; at = at.parent) hashes[index++] = at.hash;
  return { start: node.generation, hashes };
}

/** Compares leaves in CouchDB's order: the winner is the smallest. */
export function compareLeaves(left: LeafNode, right: LeafNode): number {
  if (left.leaf.deleted !== right.leaf.deleted) return left.leaf.deleted ? 1 : -1;
  if (left.generation !== right.generation) return right.generation - left.generation;
  return compareHashes(right.hash, left.hash);
}
