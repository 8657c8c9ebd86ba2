/** Directed graphs, given by a function that returns the successors of a node. Pure. */

interface Visit {
  readonly node: string;
  readonly successors: Iterator<string>;
}

/**
 * Returns the strongly connected components that contain a cycle: several nodes that reach each
 * other, or a node that is its own successor. Uses Tarjan's algorithm without recursion, so that
 * long chains do not overflow the stack. Takes time linear in the number of nodes and edges.
 */
export function cyclesOf(
  nodes: Iterable<string>,
  successorsOf: (node: string) => Iterable<string>,
): readonly (readonly string[])[] {
  const indexes = new Map<string, number>();
  /**
   * Low-link values of Tarjan's algorithm, for nodes that have not been assigned to a component.
   */
  const lows = new Map<string, number>();
  const open: string[] = [];
  const cycles: (readonly string[])[] = [];
  const enter = (node: string): Visit => {
    indexes.set(node, indexes.size);
    lows.set(node, indexes.size - 1);
    open.push(node);
    return { node, successors: successorsOf(node)[Symbol.iterator]() };
  };
  const lower = (node: string, low: number): void => {
    lows.set(node, Math.min(lows.get(node) ?? low, low));
  };
  const leave = (node: string): void => {
    if (lows.get(node) !== indexes.get(node)) return;
    const component = open.splice(open.lastIndexOf(node));
    for (const member of component) lows.delete(member);
    const isCycle = component.length > 1 || [...successorsOf(node)].includes(node);
    if (isCycle) cycles.push(component);
  };
  for (const root of nodes) {
    if (indexes.has(root)) continue;
    const path = [enter(root)];
    for (let visit = path.at(-1); visit !== undefined; visit = path.at(-1)) {
      const { node, successors } = visit;
      const { value: next, done } = successors.next();
      if (done === true) {
        path.pop();
        const parent = path.at(-1)?.node;
        if (parent !== undefined) lower(parent, lows.get(node) ?? Number.POSITIVE_INFINITY);
        leave(node);
      } else if (!indexes.has(next)) path.push(enter(next));
      else if (lows.has(next)) lower(node, indexes.get(next) ?? 0);
    }
  }
  return cycles;
}
