/**
 * Drafts: temporary files in which a store is created, restored or compacted. Their names contain
 * the id of the process, so that the drafts of a killed process can be recognized and removed.
 * Processes that share a store share a PID namespace.
 */
import { randomUUID } from "node:crypto";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const PATTERN = /^new-(\d+)-[0-9a-f-]{36}/;

/** Paths of the drafts in use by this process. */
const inUse = new Set<string>();

/** Returns the path of a new draft. The caller must call `removeDraft` at the end. */
export function draftPath(directory: string): string {
  const draft = join(directory, `new-${process.pid}-${randomUUID()}`);
  inUse.add(draft);
  return draft;
}

/** Returns the path of a draft's copy, which a new store needs. */
export function copyOf(draft: string): string {
  return `${draft}-copy`;
}

/** Removes the files of a draft, if they exist. */
export function removeDraft(draft: string): void {
  for (const each of [draft, `${draft}-lock`, copyOf(draft)]) rmSync(each, { force: true });
  inUse.delete(draft);
}

/** Removes the drafts of processes that no longer exist. */
export function removeDeadDrafts(directory: string): void {
  try {
    for (const name of readdirSync(directory)) {
      const match = PATTERN.exec(name);
      if (match === null) continue;
      const draft = join(directory, match[0]);
      if (!isInUse(draft, Number(match[1]))) removeDraft(draft);
    }
  } catch {
    // The drafts only waste space. The next operation tries again.
  }
}

function isInUse(draft: string, pid: number): boolean {
  // A process in a new container can have the id of the one that was killed.
  if (pid === process.pid) return inUse.has(draft);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
