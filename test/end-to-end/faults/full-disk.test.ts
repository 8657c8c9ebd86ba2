/**
 * The disk of a node fills up, and space is freed later. The node refuses writes that do not fit,
 * reports the full disk once, and recovers automatically.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { onceThere } from "../../support/changes-feed.ts";
import { canMountMemory, memoryDisk, withMount } from "../../support/mounts.ts";
import { Processes } from "../../support/open-process.ts";

const processes = new Processes();
afterAll(() => processes.close());

test.skipIf(!canMountMemory)(
  "a node on a full disk serves reads, refuses writes, reports the full disk once, and continues when there is space",
  async () => {
    await withMount(processes.directory(), memoryDisk(4), async (directory) => {
      const node = await processes.open({ directory });
      await node.call("PUT", "/films");
      await node.call("PUT", "/_replicator/copy", {
        source: "films",
        target: "copy",
        create_target: true,
        continuous: true,
      });
      await node.call("PUT", "/films/first", {});
      await onceThere(node.url, "copy", (ids) => ids.has("first"));
      expect((await node.call("GET", "/_up")).body).toEqual({ status: "ok", seeds: {} });
      expect(() => writeFileSync(join(directory, "filler"), Buffer.alloc(8_000_000))).toThrow(
        "ENOSPC",
      );

      const full = node.events.event("kv.disk-full");
      // A short document could still fit into free pages of the store's file.
      const long = { x: "x".repeat(1_000_000) };
      for (let number = 0; number < 20; number++) {
        const { status, body } = await node.call("PUT", `/films/${number}`, long);
        expect([status, body.error]).toEqual([503, "service_unavailable"]);
      }
      await full;
      expect(await node.call("GET", "/_up")).toEqual({
        status: 200,
        body: { status: "ok", seeds: {}, disk_full: true },
      });
      expect((await node.call("GET", "/copy/first")).status).toBe(200);

      execFileSync("mount", ["-o", "remount,size=40m", directory]);
      await node.events.event("kv.disk-has-room");
      expect((await node.call("PUT", "/films/last", {})).status).toBe(201);
      await onceThere(node.url, "copy", (ids) => ids.has("last"));
      expect((await node.call("GET", "/_up")).body).toEqual({ status: "ok", seeds: {} });
      const named = (name: string) => node.log().split(`"event":"${name}"`).length - 1;
      expect([named("kv.disk-full"), named("kv.disk-has-room")]).toEqual([1, 1]);
      expect(named("service.failed")).toBe(0);
      expect(await node.stop()).toBe(0);
    });
  },
);
