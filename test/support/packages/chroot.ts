/**
 * A system to install packages in: this machine's root file system, below a layer in memory that
 * receives all changes. Its mounts are in a namespace that ends with its process.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./run.ts";

const MOUNT = `set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0/changes" "$0/work" "$0/root"
mount -t overlay -o "lowerdir=/,upperdir=$0/changes,workdir=$0/work" overlay "$0/root"
mount -t proc proc "$0/root/proc"
mount --rbind /dev "$0/root/dev"
echo mounted
exec cat`;

const ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  DEBIAN_FRONTEND: "noninteractive",
  LANG: "C.UTF-8",
};

export interface Chroot {
  /** Runs a program in the chroot to its end. */
  run(program: string, ...flags: string[]): ReturnType<typeof run>;
  /** Starts a program in the chroot. */
  start(program: string, ...flags: string[]): ChildProcess;
  close(): Promise<void>;
}

/**
 * Opens the chroot. Returns undefined if this machine cannot mount file systems, or if one of the
 * Debian packages is not installed.
 */
export async function openChroot(packages: readonly string[]): Promise<Chroot | undefined> {
  if (spawnSync("dpkg-query", ["--show", ...packages]).status !== 0) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "tandem-chroot-"));
  const flags = ["--mount", "--propagation", "private", "sh", "-c", MOUNT, folder];
  const holder = spawn("unshare", flags, { stdio: ["pipe", "pipe", "ignore"] });
  const ended = once(holder, "close");
  const close = async () => {
    holder.stdin.end();
    await ended;
    rmSync(folder, { recursive: true });
  };
  const [said] = await Promise.race([once(holder.stdout, "data"), ended]);
  if (String(said) !== "mounted\n") {
    await close();
    return undefined;
  }
  const entered = (words: readonly string[]) => {
    return ["--target", String(holder.pid), "--mount", "chroot", join(folder, "root"), ...words];
  };
  const options = { cwd: "/", env: ENVIRONMENT };
  return {
    run: (...words) => run("nsenter", entered(words), options),
    start: (...words) =>
      spawn("nsenter", entered(words), { ...options, stdio: ["ignore", "pipe", "ignore"] }),
    close,
  };
}
