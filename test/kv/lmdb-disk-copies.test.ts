/**
 * Checks the content of the disk when a commit is acknowledged. The store is in an image of a file
 * system. A copy of the image lacks everything that is only in the operating system's memory. The
 * writer is paused during the copy.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { utf8Decode } from "../../src/base/index.ts";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";
import { bytes } from "../../src/library/kv-conformance/fixture.ts";
import { canMountFiles, fileDisk, makeFileDisk, withMount } from "../support/mounts.ts";
import { stopWhollyByPolling } from "../support/stop-process.ts";
import { withDirectory } from "../support/with-directory.ts";

/** Number of copies. Set `TANDEM_DISK_COPIES=200` for a longer test. */
const COPY_COUNT = Number(process.env.TANDEM_DISK_COPIES ?? 10);

const DISK_MEGABYTES = 64;
const WRITER = fileURLToPath(new URL("../support/kv/counting-writer.mjs", import.meta.url));
/** Number of rows that the writer maintains. */
const ROW_COUNT = 500;

const runtime = createSystemRuntime();

test.skipIf(!canMountFiles)(
  `a copy of the disk contains all acknowledged commits (${COPY_COUNT} copies)`,
  async () => {
    await withDirectory(async (directory) => {
      const disk = join(directory, "disk");
      const copy = join(directory, "copy");
      makeFileDisk(disk, DISK_MEGABYTES);
      await withMount(directory, fileDisk(disk), async (mounted) => {
        const writer = spawn(process.execPath, [WRITER, join(mounted, "store")], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        const exited = once(writer, "exit");
        const over = new AbortController();
        void exited.then(() => over.abort(new Error("The writer ended")));
        let acknowledged = 0;
        const lines = createInterface({ input: writer.stdout });
        lines.on("line", (line) => {
          acknowledged = Number(line);
        });
        try {
          for (let round = 0; round < COPY_COUNT; round++) {
            for (let count = 0; count < 50; count++)
              await once(lines, "line", { signal: over.signal });
            await stopWhollyByPolling(writer);
            const acknowledgedBefore = acknowledged;
            copyFileSync(disk, copy);
            writer.kill("SIGCONT");
            await withMount(directory, fileDisk(copy), async (copied) => {
              const last = await countedIn(join(copied, "store"));
              expect(last).toBeGreaterThanOrEqual(acknowledgedBefore);
            });
          }
        } finally {
          writer.kill("SIGKILL");
          await exited;
        }
      });
    });
  },
);

/** Returns the counter in the store. All rows have to be from the same commit. */
async function countedIn(directory: string): Promise<number> {
  const kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
  const numberAt = async (key: string): Promise<number> =>
    Number(utf8Decode((await kv.read((tx) => tx.get(bytes(key)))) ?? new Uint8Array(0)));
  const last = await numberAt("last");
  for (let number = Math.max(1, last - ROW_COUNT + 1); number <= last; number++) {
    expect(await numberAt(`row ${number % ROW_COUNT}`)).toBe(number);
  }
  await kv.close();
  return last;
}
