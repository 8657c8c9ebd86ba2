/**
 * Compares revision trees with a naive model, a set of full paths. Generates a random forest of
 * revisions, whose branches arrive as paths, whole or stemmed, in any order.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RevisionPath } from "../document.ts";
import { decodeDocumentRecord, encodeDocumentRecord } from "../records/document-record.ts";
import { formatRevision } from "./revision.ts";
import { type LeafState, pathOf, RevisionTree } from "./revision-tree.ts";

const NO_LIMIT = 1_000_000;

/** A node of the generated forest. Its parent, if any, is an earlier node. */
interface ForestNode {
  readonly generation: number;
  readonly hash: string;
  readonly parent: number | undefined;
  readonly deleted: boolean;
}

const forest = fc
  .array(
    fc.record({ parent: fc.nat(), isRoot: fc.boolean(), deleted: fc.boolean(), salt: fc.nat(15) }),
    {
      minLength: 1,
      maxLength: 24,
    },
  )
  .map((drawn) => {
    const nodes: ForestNode[] = [];
    for (const [index, { parent, isRoot, deleted, salt }] of drawn.entries()) {
      const parentIndex = index === 0 || (isRoot && index % 5 === 0) ? undefined : parent % index;
      const above = parentIndex === undefined ? undefined : (nodes[parentIndex] as ForestNode);
      // Digests and arbitrary strings, the two kinds of hashes; unique, and in no particular order.
      const text = `${salt.toString(16)}${index.toString(16).padStart(2, "0")}`;
      const hash = salt % 3 === 0 ? `h${text}` : text.padEnd(32, "0");
      nodes.push({ generation: (above?.generation ?? 0) + 1, hash, parent: parentIndex, deleted });
    }
    return nodes;
  });

/** Paths to nodes of the forest, each truncated to some length. */
const arrivals = forest.chain((nodes) =>
  fc.record({
    nodes: fc.constant(nodes),
    tips: fc.array(
      fc.record({ node: fc.nat(nodes.length - 1), length: fc.integer({ min: 1, max: 30 }) }),
      {
        minLength: 1,
        maxLength: 16,
      },
    ),
  }),
);

function pathTo(nodes: readonly ForestNode[], tip: number, length: number): RevisionPath {
  const hashes: string[] = [];
  let at: number | undefined = tip;
  while (at !== undefined && hashes.length < length) {
    const node: ForestNode = nodes[at] as ForestNode;
    hashes.push(node.hash);
    at = node.parent;
  }
  return { start: (nodes[tip] as ForestNode).generation, hashes };
}

function leafState(deleted: boolean): LeafState {
  return {
    deleted,
    bodyChunkCount: 1,
    bodyBytes: 2,
    attachmentChunkCount: 0,
    attachmentBytes: 0,
    attachmentEncodedBytes: 0,
  };
}

function grown(
  nodes: readonly ForestNode[],
  tips: readonly { node: number; length: number }[],
): RevisionTree {
  const tree = new RevisionTree();
  for (const { node, length } of tips) {
    const path = pathTo(nodes, node, length);
    const verdict = tree.judge(path, NO_LIMIT);
    const before = dump(tree);
    tree.graft(path, leafState((nodes[node] as ForestNode).deleted));
    expect(dump(tree) === before).toBe(verdict === "known");
  }
  return tree;
}

/** Returns all leaves with their known paths, in the tree's order. */
function dump(tree: RevisionTree): string {
  return JSON.stringify(tree.leaves.map((leaf) => [pathOf(leaf), leaf.leaf.deleted]));
}

/**
 * Builds the naive model: all edges of the paths. Leaves are nodes without an edge to a descendant.
 */
function modelOf(nodes: readonly ForestNode[], tips: readonly { node: number; length: number }[]) {
  const parents = new Map<string, string>();
  const seen = new Map<string, boolean>();
  for (const { node, length } of tips) {
    const { start, hashes } = pathTo(nodes, node, length);
    const revisions = hashes.map((hash, depth) => `${start - depth}-${hash}`);
    for (const [depth, revision] of revisions.entries()) {
      const parent = revisions[depth + 1];
      if (parent !== undefined) parents.set(revision, parent);
    }
    seen.set(revisions[0] as string, (nodes[node] as ForestNode).deleted);
  }
  const ancestors = new Set(parents.values());
  const leaves = [...seen.keys()].filter((revision) => !ancestors.has(revision));
  const paths = new Map(
    leaves.map((leaf) => {
      const path: string[] = [];
      for (let at: string | undefined = leaf; at !== undefined; at = parents.get(at)) path.push(at);
      return [leaf, path];
    }),
  );
  const bytesOf = (hash: string): string =>
    /^[0-9a-f]{32}$/.test(hash)
      ? Buffer.from(hash, "hex").toString("latin1")
      : Buffer.from(hash).toString("latin1");
  const winner = leaves.reduce((best, leaf) => {
    const rank = (revision: string): [number, number, string] => [
      seen.get(revision) ? 0 : 1,
      Number.parseInt(revision, 10),
      bytesOf(revision.slice(revision.indexOf("-") + 1)),
    ];
    const [left, right] = [rank(best), rank(leaf)];
    for (const index of [0, 1, 2] as const) {
      if (left[index] !== right[index]) return left[index] > right[index] ? best : leaf;
    }
    return best;
  });
  return { leaves, paths, winner };
}

describe("a revision tree", () => {
  test("has the same leaves, paths and winner as the set of paths that it was built from", () => {
    fc.assert(
      fc.property(arrivals, ({ nodes, tips }) => {
        const tree = grown(nodes, tips);
        const model = modelOf(nodes, tips);
        expect(tree.leaves.map(formatRevision).sort()).toEqual([...model.leaves].sort());
        for (const leaf of tree.leaves) {
          const { start, hashes } = pathOf(leaf);
          const path = hashes.map((hash, depth) => `${start - depth}-${hash}`);
          expect(path).toEqual(model.paths.get(formatRevision(leaf)));
        }
        expect(tree.winner === undefined ? undefined : formatRevision(tree.winner)).toBe(
          model.winner,
        );
      }),
      { numRuns: 300 },
    );
  });

  test("does not depend on the order in which paths arrive", () => {
    fc.assert(
      fc.property(
        arrivals.chain(({ nodes, tips }) =>
          fc.record({
            nodes: fc.constant(nodes),
            tips: fc.constant(tips),
            shuffled: fc.shuffledSubarray(tips, { minLength: tips.length }),
          }),
        ),
        ({ nodes, tips, shuffled }) => {
          expect(dump(grown(nodes, shuffled))).toBe(dump(grown(nodes, tips)));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("is unchanged after encoding and decoding", () => {
    fc.assert(
      fc.property(arrivals, ({ nodes, tips }) => {
        const tree = grown(nodes, tips);
        const { first, more } = encodeDocumentRecord(tree, 3);
        const read = decodeDocumentRecord([first.bytes, ...more]);
        expect(dump(read.tree)).toBe(dump(tree));
      }),
      { numRuns: 200 },
    );
  });

  test("stemming keeps a revision if and only if it is within the limit for at least one leaf", () => {
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 6 }), ({ nodes, tips }, limit) => {
        const tree = grown(nodes, tips);
        const kept = new Set<string>();
        for (const leaf of tree.leaves) {
          const { start, hashes } = pathOf(leaf);
          for (const [depth, hash] of hashes.slice(0, limit).entries())
            kept.add(`${start - depth}-${hash}`);
        }
        const leaves = tree.leaves.map(formatRevision);
        tree.stem(limit);
        expect(tree.leaves.map(formatRevision)).toEqual(leaves);
        const left = new Set<string>();
        for (const leaf of tree.leaves) {
          const { start, hashes } = pathOf(leaf);
          for (const [depth, hash] of hashes.entries()) left.add(`${start - depth}-${hash}`);
        }
        expect([...left].sort()).toEqual([...kept].sort());
        // A path is judged as "ancestors" only if stemming keeps some of its new ancestors.
        for (const { node, length } of tips) {
          const path = pathTo(nodes, node, length);
          if (tree.judge(path, limit) !== "ancestors") continue;
          const before = dump(tree);
          tree.graft(path, leafState(false));
          tree.stem(limit);
          expect(dump(tree)).not.toBe(before);
        }
      }),
      { numRuns: 300 },
    );
  });
});
