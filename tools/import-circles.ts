/** Circles among the imports of files, and of folders. Imports of types count: a reader of one file of a circle has to read all of them. */
import { posix } from "node:path";

/** Static imports, and `import("…")` as an expression or a type. */
const IMPORT = /\b(?:from |import |import\()"(\.\.?\/[^"]+\.tsx?)"/g;

/** The files that each file imports, of those that are given. */
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

/** A circle, as the paths of its files in the order of their imports; undefined when there is none. */
export function importCircle(texts: ReadonlyMap<string, string>): readonly string[] | undefined {
  return circleOf(importsOf(texts));
}

/**
 * A circle among the folders of the layers, such as `api/documents > api/queries`; undefined when there is none. Files that
 * stand in a layer itself are left out: they are what its folders share, or put them together.
 */
export function folderCircle(texts: ReadonlyMap<string, string>): readonly string[] | undefined {
  const imports = new Map<string, string[]>();
  for (const [path, targets] of importsOf(texts)) {
    const folder = folderOf(path);
    if (folder === undefined) continue;
    const others = targets.flatMap((target) => folderOf(target) ?? []);
    const known = imports.get(folder) ?? [];
    imports.set(folder, [...known, ...others.filter((other) => other !== folder)]);
  }
  return circleOf(imports);
}

function folderOf(path: string): string | undefined {
  const [layer, folder, file] = path.split("/");
  return file === undefined ? undefined : `${layer}/${folder}`;
}

function circleOf(graph: ReadonlyMap<string, readonly string[]>): readonly string[] | undefined {
  const done = new Set<string>();
  const way: string[] = [];
  const search = (node: string): readonly string[] | undefined => {
    const start = way.indexOf(node);
    if (start >= 0) return way.slice(start);
    if (done.has(node)) return undefined;
    way.push(node);
    for (const target of graph.get(node) ?? []) {
      const circle = search(target);
      if (circle !== undefined) return circle;
    }
    way.pop();
    done.add(node);
    return undefined;
  };
  for (const node of graph.keys()) {
    const circle = search(node);
    if (circle !== undefined) return circle;
  }
  return undefined;
}
