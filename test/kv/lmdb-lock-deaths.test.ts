/**
 * Processes die while they hold a lock that the processes of an LMDB store share:
 * docs/decisions/0174-locks-of-dead-processes.md.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { canRecordDisks } from "../support/kv/recorded-disk.ts";
import { withDirectory } from "../support/with-directory.ts";

const DEATHS = Number(process.env.LOCK_DEATHS ?? 2);
const ASKER_COUNT = 2;
const SUPPORT = new URL("../support/kv/", import.meta.url);
const ASKER_FILE = fileURLToPath(new URL("lock-asker.mjs", SUPPORT));
const STOPPER_SOURCE = fileURLToPath(new URL("lock-stopper.c", SUPPORT));

/** A child process that prints lines and reads lines. */
class Asker {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(directory: string, environment: Readonly<Record<string, string>> = {}) {
    this.child = spawn(process.execPath, [ASKER_FILE, directory], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...environment },
    });
    const input = this.child.stdout as NonNullable<typeof this.child.stdout>;
    this.#lines = createInterface({ input })[Symbol.asyncIterator]();
  }

  async line(): Promise<string> {
    return (await this.#lines.next()).value;
  }

  ask(): void {
    this.child.stdin?.write("\n");
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await ended;
  }
}

test.skipIf(!canRecordDisks).each(["readers", "writer"])(
  "the death of a process that holds the lock of the %s does not block other processes",
  async (lock) => {
    await withDirectory(async (directory) => {
      const library = join(directory, "lock-stopper.so");
      execFileSync("cc", ["-O1", "-shared", "-fPIC", "-o", library, STOPPER_SOURCE, "-ldl"]);
      const store = join(directory, "store");
      const askers = Array.from({ length: ASKER_COUNT }, () => new Asker(store));
      try {
        for (const asker of askers) expect(await asker.line()).toBe("ready");
        for (let death = 0; death < DEATHS; death++) {
          const victim = new Asker(store, { LD_PRELOAD: library, STOP_WITH: lock });
          try {
            // The process acquired both locks when it opened the store.
            expect(await victim.line()).toBe("stopped");
            for (const asker of askers) asker.ask();
          } finally {
            await victim.kill();
          }
          const counts = await Promise.all(askers.map((asker) => asker.line()));
          expect(counts.map(Number).sort((left, right) => left - right)).toEqual(
            askers.map((_, index) => death * ASKER_COUNT + index + 1),
          );
        }
      } finally {
        await Promise.all(askers.map((asker) => asker.kill()));
      }
    });
  },
);
