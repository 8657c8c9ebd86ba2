/**
 * Redirects imports of sources to the modules in `dist`. Otherwise, Vitest would transform each
 * source again in every process. Vitest's output is also slower, because each use of an import is a
 * property look-up.
 */
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SOURCES = join(ROOT, "src");

/** Folder of the dashboard. Vite builds the dashboard separately. */
const DASHBOARD = join(SOURCES, "dashboard");

/** Source files that are not built into `dist`. */
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
