/** Writes the output of a build step. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Makes `folder` contain exactly these files, `[path, text or bytes]`. Unchanged files are not
 * rewritten: processes of another run might be reading them.
 */
export function writeFolder(folder, files) {
  mkdirSync(folder, { recursive: true });
  const names = new Set();
  for (const [name, content] of files) {
    names.add(join(name));
    const path = join(folder, name);
    const bytes = Buffer.from(content);
    if (existsSync(path) && readFileSync(path).equals(bytes)) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const path = join(entry.parentPath, entry.name);
    if (!names.has(path.slice(folder.length + 1))) rmSync(path, { force: true });
  }
}
