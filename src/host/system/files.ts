/** Syncs files and folders to disk. */
import { closeSync, fsyncSync, openSync } from "node:fs";

/** Fsyncs a folder, so that its entries are durable. */
export function saveFolder(directory: string): void {
  // Syncing folders is unsupported and unnecessary on Windows.
  if (process.platform !== "win32") saveFile(directory, "r");
}

/** Fsyncs a file or folder. */
export function saveFile(path: string, flags: "r" | "r+"): void {
  const file = openSync(path, flags);
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
