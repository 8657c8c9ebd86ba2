import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs `body` with an empty folder, and removes the folder afterwards. */
export async function withDirectory(body: (directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "tandem-"));
  try {
    await body(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
