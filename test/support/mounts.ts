/**
 * Temporary file systems for tests. Mounting them needs root, and is not allowed everywhere. Tests
 * that need them are skipped if `canMountMemory` or `canMountFiles` is false.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Returns the arguments of `mount` for a file system in memory with this number of megabytes. */
export function memoryDisk(megabytes: number): string[] {
  return ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs"];
}

/** Returns the arguments of `mount` for a disk image. */
export function fileDisk(file: string): string[] {
  return ["-o", "loop", file];
}

/** Runs `body` while the file system is mounted below `parent`. */
export async function withMount(
  parent: string,
  disk: readonly string[],
  body: (directory: string) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(parent, "mount-"));
  execFileSync("mount", [...disk, directory], { stdio: "ignore" });
  try {
    await body(directory);
  } finally {
    execFileSync("umount", ["--lazy", directory]);
  }
}

export const canMountMemory: boolean = tryTo(() => memoryDisk(1));

/** Creates a disk image with an ext4 file system. */
export function makeFileDisk(file: string, megabytes: number): void {
  execFileSync("truncate", ["-s", `${megabytes}M`, file]);
  execFileSync("mkfs.ext4", ["-q", "-F", file], { stdio: "ignore" });
}

export const canMountFiles: boolean = tryTo((directory) => {
  const file = join(directory, "disk");
  makeFileDisk(file, 1);
  return fileDisk(file);
});

function tryTo(makeDisk: (directory: string) => string[]): boolean {
  const directory = mkdtempSync(join(tmpdir(), "tandem-"));
  try {
    const disk = makeDisk(directory);
    const mounted = join(directory, "mounted");
    mkdirSync(mounted);
    execFileSync("mount", [...disk, mounted], { stdio: "ignore" });
    execFileSync("umount", [mounted], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(directory, { recursive: true });
  }
}
