/**
 * Tests run the modules that `tsc` has built, as the programs do. Vitest would translate each source once more, for every process,
 * and what it makes of them runs slower: an import becomes a look-up at each use.
 */
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SOURCES = join(ROOT, "src");

/** Vite builds this room, not `tsc`. */
const DASHBOARD = join(SOURCES, "dashboard");

/** `tsc` builds none of these. */
const TESTS = /\.(test|fuzz|fixture)\.ts$/;

export function builtSources(): Plugin {
  return {
    name: "built-sources",
    enforce: "pre",
    resolveId(id, importer) {
      if (importer === undefined || !id.startsWith(".")) return undefined;
      const built = builtFile(resolve(dirname(importer), id));
      return built && { id: built, external: true };
    },
  };
}

function builtFile(path: string): string | undefined {
  const isSource = path.startsWith(SOURCES + sep) && !path.startsWith(DASHBOARD + sep);
  if (!isSource || !path.endsWith(".ts") || TESTS.test(path)) return undefined;
  return join(ROOT, "dist", relative(SOURCES, path).replace(/\.ts$/, ".js"));
}
