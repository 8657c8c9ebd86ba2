import { expect, test } from "vitest";
import { cyclesOf } from "./cycles.ts";

type Edges = Readonly<Record<string, readonly string[]>>;

function cycles(edges: Edges): readonly (readonly string[])[] {
  const found = cyclesOf(Object.keys(edges), (node) => edges[node] ?? []);
  return found.map((cycle) => cycle.toSorted()).toSorted();
}

test.each<[string, Edges, readonly (readonly string[])[]]>([
  ["no edges", { a: [], b: [] }, []],
  ["a chain", { a: ["b"], b: ["c"], c: [] }, []],
  ["a diamond", { a: ["b", "c"], b: ["d"], c: ["d"], d: [] }, []],
  ["a node that is its own successor", { a: ["a"], b: [] }, [["a"]]],
  ["two directions", { a: ["b"], b: ["a"] }, [["a", "b"]]],
  ["a tail into a cycle", { t: ["a"], a: ["b"], b: ["c"], c: ["a"] }, [["a", "b", "c"]]],
  ["a tail out of a cycle", { a: ["b"], b: ["a", "t"], t: ["u"], u: [] }, [["a", "b"]]],
  [
    "two cycles with a bridge",
    { a: ["b"], b: ["a", "c"], c: ["d"], d: ["c"] },
    [
      ["a", "b"],
      ["c", "d"],
    ],
  ],
  ["two cycles with a shared node", { a: ["b", "c"], b: ["a"], c: ["a"] }, [["a", "b", "c"]]],
  ["a successor that is not listed", { a: ["x"] }, []],
])("finds the cycles in a graph: %s", (_, edges, expected) => {
  expect(cycles(edges)).toEqual(expected);
});

test("a cycle or chain of 100,000 nodes neither overflows the stack nor takes quadratic time", () => {
  const count = 100_000;
  const nodes = Array.from({ length: count }, (_, index) => String(index));
  const [cycle] = cyclesOf(nodes, (node) => [String((Number(node) + 1) % count)]);
  expect(cycle).toHaveLength(count);
  const next = (node: string) => nodes.slice(Number(node) + 1, Number(node) + 2);
  expect(cyclesOf(nodes, next)).toEqual([]);
});

test("components agree with reachability in random graphs", () => {
  for (let seed = 1; seed <= 200; seed++) {
    let state = seed;
    const random = (): number => {
      state = (state * 1103515245 + 12345) % 2 ** 31;
      return state / 2 ** 31;
    };
    const nodes = ["a", "b", "c", "d", "e", "f"];
    const edges: Edges = Object.fromEntries(
      nodes.map((node) => [node, nodes.filter(() => random() < 0.25)]),
    );
    const reach = (from: string): ReadonlySet<string> => {
      const found = new Set<string>();
      for (const open = [...(edges[from] ?? [])]; open.length > 0; ) {
        const next = open.pop() as string;
        if (!found.has(next)) open.push(...(edges[next] ?? []));
        found.add(next);
      }
      return found;
    };
    const expected = nodes.filter((node) => reach(node).has(node));
    const found = cycles(edges);
    expect(found.flat().toSorted(), `seed ${seed}`).toEqual(expected);
    for (const cycle of found) {
      for (const node of cycle) {
        const together = nodes.filter((other) => reach(node).has(other) && reach(other).has(node));
        expect(cycle, `seed ${seed}`).toEqual(together);
      }
    }
  }
});
