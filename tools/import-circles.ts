/** Circles among the imports of files. Imports of types count: who reads one file of a circle has to read all of them. */
import { posix } from "node:path";

const IMPORT = /(?:\bfrom|\bimport) "(\.\.?\/[^"]+\.ts)"/g;

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
  const imports = importsOf(texts);
  const done = new Set<string>();
  const way: string[] = [];
  const search = (path: string): readonly string[] | undefined => {
    const start = way.indexOf(path);
    if (start >= 0) return way.slice(start);
    if (done.has(path)) return undefined;
    way.push(path);
    for (const target of imports.get(path) ?? []) {
      const circle = search(target);
      if (circle !== undefined) return circle;
    }
    way.pop();
    done.add(path);
    return undefined;
  };
  for (const path of texts.keys()) {
    const circle = search(path);
    if (circle !== undefined) return circle;
  }
  return undefined;
}
