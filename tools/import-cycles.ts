/**
 * Import cycles between files and between folders. Type imports count: to read one file of a cycle,
 * one has to read all of them.
 */
import { posix } from "node:path";

/** Static imports, and `import("…")` as an expression or a type. */
const IMPORT = /\b(?:from |import |import\()"(\.\.?\/[^"]+\.tsx?)"/g;

/** Returns the imports of each given file, restricted to the given files. */
function importsOf(texts: ReadonlyMap<string, string>): Map<string, readonly string[]> {
  const imports = new Map<string, readonly string[]>();
  for (const [path, text] of texts) {
    const targets = [...text.matchAll(IMPORT)].map(([, target]) =>
      posix.join(posix.dirname(path), target as string),
    );
    imports.set(
      path,
      targets.filter((target) => texts.has(target)),
    );
  }
  return imports;
}

/** Returns an import cycle as the paths of its files in order, if any. */
export function importCycle(texts: ReadonlyMap<string, string>): readonly string[] | undefined {
  return cycleOf(importsOf(texts));
}

/**
 * Returns a cycle between the folders of the layers, such as `api/documents > api/queries`, if any.
 * Ignores files directly in a layer: the layer's folders share these files, or these files combine
 * the folders.
 */
export function folderCycle(texts: ReadonlyMap<string, string>): readonly string[] | undefined {
  const imports = new Map<string, string[]>();
  for (const [path, targets] of importsOf(texts)) {
    const folder = folderOf(path);
    if (folder === undefined) continue;
    const others = targets.flatMap((target) => folderOf(target) ?? []);
    const known = imports.get(folder) ?? [];
    imports.set(folder, [...known, ...others.filter((other) => other !== folder)]);
  }
  return cycleOf(imports);
}

function folderOf(path: string): string | undefined {
  const [layer, folder, file] = path.split("/");
  return file === undefined ? undefined : `${layer}/${folder}`;
}

function cycleOf(graph: ReadonlyMap<string, readonly string[]>): readonly string[] | undefined {
  const done = new Set<string>();
  const way: string[] = [];
  const search = (node: string): readonly string[] | undefined => {
    const start = way.indexOf(node);
    if (start >= 0) return way.slice(start);
    if (done.has(node)) return undefined;
    way.push(node);
    for (const target of graph.get(node) ?? []) {
      const cycle = search(target);
      if (cycle !== undefined) return cycle;
    }
    way.pop();
    done.add(node);
    return undefined;
  };
  for (const node of graph.keys()) {
    const cycle = search(node);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}
