/**
 * Temporary file systems for tests. Mounting needs root and is not allowed everywhere: tests that
 * need it are skipped if `canMountMemory` or `canMountFiles` is false.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Arguments of `mount` for a file system in memory of this many megabytes. */
export function memoryDisk(megabytes: number): string[] {
  return ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs"];
}

/** Arguments of `mount` for a disk image. */
export function fileDisk(file: string): string[] {
  return ["-o", "loop", file];
}

/** Runs `body` with the file system mounted below `parent`. */
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

/** A disk image with ext4. */
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
