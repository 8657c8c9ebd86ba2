/** A node whose disk fails while it writes the root of its store. */
import { once } from "node:events";
import { afterAll, expect, test } from "vitest";
import { canRecordDisks, RecordedDisk } from "../../support/kv/recorded-disk.ts";
import { Processes } from "../../support/open-process.ts";

const processes = new Processes();
afterAll(() => processes.close());

test.skipIf(!canRecordDisks)(
  "a node exits with the reason after a permanent LMDB failure, and works again after a restart",
  async () => {
    const directory = processes.directory();
    const disk = new RecordedDisk(directory);
    const node = await processes.open({ directory, environment: disk.environment });
    await node.call("PUT", "/films");
    await node.call("PUT", "/films/first", { title: "Metropolis" });
    const exited = once(node.child, "exit");
    disk.fail({ rootWrites: 1 });
    const writing = node.call("PUT", "/films/second", { plot: "x".repeat(100_000) });
    const [[code]] = await Promise.all([exited, writing.catch(() => {})]);
    expect(code).toBe(1);
    expect(node.log()).toContain(
      "tandem: The store is unavailable: LMDB failed to write its root page",
    );
    const again = await processes.open({ directory });
    expect(await again.call("GET", "/_up")).toMatchObject({ status: 200 });
    expect(await again.call("GET", "/films/first")).toMatchObject({ status: 200 });
    expect(await again.call("PUT", "/films/third", {})).toMatchObject({ status: 201 });
  },
);
