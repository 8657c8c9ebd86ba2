/** Node types (RFC 013), and replication in separate processes next to the API. */
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { load } from "../support/sample-data.ts";
import { onSharedStores } from "../support/shared-stores.ts";

interface Worker {
  readonly pid: string;
  readonly jobs: number;
}

async function workers(node: TandemProcess): Promise<readonly Worker[]> {
  return (await node.call("GET", "/_tandem/workers")).body.workers;
}

function workersOnce(node: TandemProcess, passes: (found: readonly Worker[]) => boolean) {
  return node.onceAnswered(() => workers(node), passes);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Returns the ports on which a process listens, as listed in /proc. */
function listeningPorts(pid: number): number[] {
  const descriptors = readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${name}`)];
    } catch {
      // The descriptor was closed after it was listed.
      return [];
    }
  });
  const inodes = new Set(descriptors.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]));
  const LISTEN = "0A";
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((row) => row[3] === LISTEN && inodes.has(row[9]))
      .map((row) => Number.parseInt(row[1]?.split(":")[1] ?? "", 16)),
  );
}

onSharedStores((openStore) => {
  const processes = new Processes();
  afterAll(() => processes.close());

  test("replication processes run next to the API process, are restarted when they die, and stop with it", async () => {
    const node = await processes.open({
      ...openStore(processes),
      flags: ["--replication-processes", "2"],
    });
    const both = await workersOnce(node, (found) => found.length === 2);
    const pids = both.map(({ pid }) => Number(pid));
    expect(pids).not.toContain(node.child.pid);

    await load(
      node,
      "a",
      Array.from({ length: 200 }, (_, n) => `{"_id":"doc-${n}"}`),
    );
    const body = { source: "a", target: "b", create_target: true };
    expect((await node.call("POST", "/_replicate", body)).body).toMatchObject({ ok: true });
    expect((await compare(`${node.url}/a`, `${node.url}/b`)).differences).toEqual([]);

    // The counters of replication processes appear in the responses of the process that serves the
    // API.
    const { value } = await node.onceAnswered(
      async () =>
        (await node.call("GET", "/_node/_local/_stats/couch_replicator/checkpoints/success")).body,
      (counter) => counter.value > 0,
    );
    const metrics = await (await fetch(`${node.url}/_node/_local/_prometheus`)).text();
    expect(metrics).toContain(`couchdb_couch_replicator_checkpoints_total ${value}`);
    expect(metrics).toContain("couchdb_couch_replicator_jobs_starts_total 1");

    const [victim, other] = pids as [number, number];
    process.kill(victim, "SIGKILL");
    const after = await workersOnce(node, (found) => {
      const now = found.map(({ pid }) => Number(pid));
      return now.length === 2 && now.includes(other) && !now.includes(victim);
    });
    expect(await node.stop()).toBe(0);
    for (const { pid } of after) expect(isAlive(Number(pid))).toBe(false);
  });

  test("replication processes exit when their parent is killed", async () => {
    const node = await processes.open({
      ...openStore(processes),
      flags: ["--replication-processes", "1"],
    });
    await workersOnce(node, (found) => found.length === 1);
    // Parent and child write to the same pipe, which is closed once both have ended.
    const closed = once(node.child, "close");
    await node.kill();
    await closed;
  });

  test("a frontend does not open outgoing connections, and a replication node does not listen on any port", async () => {
    const options = openStore(processes);
    let requestCount = 0;
    const source = createServer((_request, response) => {
      requestCount++;
      response.writeHead(404, { "content-type": "application/json" });
      response.end('{"error":"not_found","reason":"no_db_file"}');
    });
    await new Promise<void>((resolve) => source.listen(0, "127.0.0.1", resolve));
    const { port } = source.address() as AddressInfo;
    try {
      const frontend = await processes.open({ ...options, flags: ["--node-type", "api_frontend"] });
      const body = { source: `http://127.0.0.1:${port}/a`, target: "b", create_target: true };
      const answered = frontend.call("POST", "/_replicate", body);
      await frontend.events.event("replication.added");
      expect((await frontend.call("GET", "/_scheduler/jobs")).body.total_rows).toBe(1);
      expect(await workers(frontend)).toEqual([]);
      expect(requestCount).toBe(0);
      const document = { source: body.source, target: "b", create_target: true };
      const check = () => frontend.call("POST", "/_tandem/replications/_check", document);
      const rule = { source: `http://127.0.0.1:${port}`, databases: ["a"], target: "{db}-copy" };
      const plan = () => frontend.call("PUT", "/_tandem/rules/all?dry_run=true", rule);
      for (const ask of [check, plan]) {
        expect(await ask()).toMatchObject({
          status: 503,
          body: {
            error: "no_replication_node",
            reason: expect.stringContaining("--node-type replication"),
          },
        });
      }
      expect((await frontend.call("PUT", "/_tandem/rules/all", rule)).status).toBe(201);
      const lastError = async () =>
        (await frontend.call("GET", "/_tandem/rules/all")).body.status.last_error;
      expect(await lastError()).toMatchObject({ error: "no_replication_node" });
      expect(requestCount).toBe(0);

      // A rule for local databases needs no connection.
      await frontend.call("PUT", "/a");
      const ownRule = { source: "local", databases: ["a"], target: "copy-of-{db}" };
      expect(await frontend.call("PUT", "/_tandem/rules/own?dry_run=true", ownRule)).toMatchObject({
        status: 200,
        body: { create: { count: 1, first: ["a"] }, cancel: { count: 0, first: [] } },
      });
      expect((await frontend.call("PUT", "/_tandem/rules/own", ownRule)).status).toBe(201);
      await frontend.onceAnswered(
        async () => (await frontend.call("GET", "/_tandem/rules/own")).body.status,
        ({ jobs, last_error }) => jobs === 1 && last_error === null,
      );
      expect(await workers(frontend)).toEqual([]);

      const replicator = processes.start({ ...options, flags: ["--node-type", "replication"] });
      expect((await answered).body).toMatchObject({ error: "db_not_found" });
      expect(requestCount).toBeGreaterThan(0);
      expect(await check()).toMatchObject({
        status: 200,
        body: { source: { state: "failed", error: "db_not_found" }, target: { state: "new" } },
      });
      expect(await plan()).toMatchObject({
        status: 502,
        body: { reason: expect.stringContaining("The source cannot be listed") },
      });
      await frontend.onceAnswered(lastError, (last) => last?.error !== "no_replication_node");
      expect(listeningPorts(frontend.child.pid as number)).toEqual([frontend.port]);
      expect(listeningPorts(replicator.pid as number)).toEqual([]);
    } finally {
      source.close();
    }
  });
});
