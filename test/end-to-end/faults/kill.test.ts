/** The jobs of a node that dies while it works resume automatically from their checkpoints. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { onceThere } from "../../support/changes-feed.ts";
import { compare } from "../../support/compare.ts";
import { Processes, type TandemProcess } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";

const INI = `
[replicator]
activity_timeout_sec = 2
checkpoint_interval = 100
worker_processes = 1
worker_batch_size = 50
`;

const processes = new Processes();
afterAll(() => processes.close());

/** Returns the checkpoint in a database. */
async function checkpoint(node: TandemProcess, database: string) {
  const { body } = await node.call("GET", `/${database}/_local_docs?include_docs=true`);
  return body.rows[0]?.doc;
}

/**
 * Kills the node as soon as its job has written a checkpoint. At that time, not all films have
 * arrived.
 */
async function killHalfWay(node: TandemProcess): Promise<void> {
  await node.events.event("replication.checkpoint");
  await node.kill();
}

test("a persistent job continues after kill -9, and does not lose or duplicate documents", async () => {
  const directory = processes.directory();
  const first = await processes.open({ directory, ini: INI });
  await load(first, "films", sampleLines("films"));
  await first.call("PUT", "/_replicator/copy", {
    source: "films",
    target: "copy",
    create_target: true,
  });
  await killHalfWay(first);

  const second = await processes.open({ directory, ini: INI });
  const before = (await second.call("GET", "/copy")).body.doc_count;
  expect(before).toBeLessThan(3023);
  const { body } = await second.onceAnswered(
    () => second.call("GET", "/_scheduler/docs/_replicator/copy"),
    ({ body: job }) => job.state === "completed",
  );
  expect(body.info.doc_write_failures).toBe(0);
  expect((await checkpoint(second, "copy")).history[0].start_last_seq).not.toBe(0);
  expect(await compare(`${second.url}/films`, `${second.url}/copy`)).toMatchObject({
    documentCount: 3023,
    differenceCount: 0,
  });
  const document = (await second.call("GET", "/_replicator/copy")).body;
  expect(document._replication_state).toBe("completed");
});

test("a transient job survives kill -9, although the connection of its caller drops", async () => {
  const directory = processes.directory();
  const first = await processes.open({ directory, ini: INI });
  await load(first, "films", sampleLines("films"));
  const asked = { source: "films", target: "copy", create_target: true };
  const answered = first.call("POST", "/_replicate", asked).then(
    () => "answered",
    () => "dropped",
  );
  await killHalfWay(first);
  expect(await answered).toBe("dropped");

  const second = await processes.open({ directory, ini: INI });
  await onceThere(second.url, "copy", ({ size }) => size === 3023);
  // The same request finds the running job. If the job has ended, the request finds no changes to
  // copy.
  const again = await second.call("POST", "/_replicate", asked);
  expect(again.status).toBe(200);
  expect((await compare(`${second.url}/films`, `${second.url}/copy`)).differenceCount).toBe(0);
});

test("another node runs the jobs of a killed node, and the list of workers shows this", async () => {
  const jobCount = 40;
  const directory = processes.directory();
  // Disables parking. Otherwise, the first jobs could park before the last job has started.
  const ini = "[replicator]\npark_after_sec = 0\n";
  const first = await processes.open({ directory, ini });
  await first.call("PUT", "/quiet");
  for (let number = 0; number < jobCount; number++) {
    const target = `copy-${number}`;
    const asked = { source: "quiet", target, create_target: true, continuous: true };
    await first.call("POST", "/_replicate", asked);
  }
  const workers = async (node: TandemProcess) => (await node.call("GET", "/_tandem/workers")).body;
  await first.onceAnswered(
    () => workers(first),
    ({ workers: [only] }) => only?.jobs === jobCount,
  );
  const second = await processes.open({ directory, ini });
  await second.events.event("jobs.worker-registered");
  expect((await workers(second)).total_rows).toBe(2);
  await first.kill();
  const { workers: left, expelled } = await second.onceAnswered(
    () => workers(second),
    ({ total_rows, workers: [only] }) => total_rows === 1 && only.jobs === jobCount,
  );
  expect(expelled).toEqual([]);
  expect(left[0]).toMatchObject({
    pid: String(second.child.pid),
    types: [
      "replication",
      "source-watch",
      "rule",
      "local-rule",
      "question",
      "command",
      "chain",
      "index",
    ],
    lease_sec: 5,
  });
  expect(Date.parse(left[0].last_sign_of_life)).toBeGreaterThan(Date.parse(left[0].since));
});

test("on SIGTERM, a node returns its jobs to the queue and exits with 0", async () => {
  const directory = processes.directory();
  const first = await processes.open({ directory, ini: INI });
  await load(first, "films", sampleLines("films").slice(0, 500));
  const { body } = await first.call("POST", "/_replicate", {
    source: "films",
    target: "copy",
    create_target: true,
    continuous: true,
  });
  await onceThere(first.url, "copy", ({ size }) => size === 500);
  expect(await first.stop()).toBe(0);

  const second = await processes.open({ directory, ini: INI });
  await second.call("PUT", "/films/later", {});
  await onceThere(second.url, "copy", (ids) => ids.has("later"));
  const job = (await second.call("GET", `/_scheduler/jobs/${encodeURIComponent(body._local_id)}`))
    .body;
  expect(job.state).toBe("running");
  expect(job.history.map(({ type }: { type: string }) => type).slice(0, 4)).toEqual([
    "started",
    "pending",
    "stopped",
    "started",
  ]);
});

test("a client that waits for a replication gets the job's id and status 503 if the node stops", async () => {
  const silent = createServer();
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  processes.onClose(async () => {
    silent.closeAllConnections();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const directory = processes.directory();
  const first = await processes.open({ directory, ini: INI });
  const body = { source: `http://127.0.0.1:${port}/films`, target: "copy", create_target: true };
  const asked = fetch(`${first.url}/_replicate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await once(silent, "request");
  expect(await first.stop()).toBe(0);
  const answer = await asked;
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
  const reported = (await answer.json()) as Record<string, string>;
  expect(reported).toMatchObject({ error: "service_unavailable", _local_id: expect.any(String) });

  const second = await processes.open({ directory, ini: INI });
  const path = `/_scheduler/jobs/${encodeURIComponent(reported._local_id as string)}`;
  const { body: job } = await second.onceAnswered(
    () => second.call("GET", path),
    (answered) => answered.body.state === "running",
  );
  expect(job.id).toBe(reported._local_id);
});
