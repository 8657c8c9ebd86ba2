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
