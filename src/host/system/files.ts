/** Puts files and folders on the disk. */
import { closeSync, fsyncSync, openSync } from "node:fs";

/** Puts the names in a folder on the disk. */
export function saveFolder(directory: string): void {
  // Windows has no such call, and no need of it.
  if (process.platform !== "win32") saveFile(directory, "r");
}

/** Puts a file, or a folder, on the disk. */
export function saveFile(path: string, flags: "r" | "r+"): void {
  const file = openSync(path, flags);
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
