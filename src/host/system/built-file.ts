/** Finds the built code of a thread or a process. */
import { fileURLToPath } from "node:url";

/**
 * The path of the built file `name` beside the file whose `import.meta.url` is given. A test runner imports sources, while
 * threads and processes run built code: the tests build first.
 */
export function builtFile(importer: string, name: string): string {
  const isSource = importer.endsWith(".ts");
  const beside = isSource ? importer.replace("/src/host/", "/dist/host/") : importer;
  return fileURLToPath(new URL(`./${name}`, beside));
}
