/** Locates the compiled code of a thread or process. */
import { fileURLToPath } from "node:url";

/**
 * Returns the path of the compiled file `name` in the folder of `importer` (`import.meta.url`).
 * Test runners import sources, but threads and processes run compiled code.
 */
export function builtFile(importer: string, name: string): string {
  const isSource = importer.endsWith(".ts");
  const beside = isSource ? importer.replace("/src/host/", "/dist/host/") : importer;
  return fileURLToPath(new URL(`./${name}`, beside));
}

/**
 * Options of threads and processes that run compiled code. They do not inherit the flags of this
 * program: compiled code needs none of them, and some (`--input-type`) would prevent its start.
 */
export const BUILT_FILE_OPTIONS: { readonly execArgv: string[] } = { execArgv: [] };
