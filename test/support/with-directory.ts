import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs `body` with an empty folder, and removes the folder afterwards. */
export async function withDirectory<T>(body: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), "tandem-"));
  try {
    return await body(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
