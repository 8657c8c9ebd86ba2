/**
 * Lists that show a job over HTTP while the job runs, and after it has ended (RFC 016, "Monitoring
 * Endpoints").
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";
import { call } from "../../support/open-process.ts";

let server: RunningServer;
let announce: (name: string, fields?: Readonly<Record<string, unknown>>) => void = () => {};
const ask = (method: string, path: string, body?: object) =>
  call(`${server.url}${path}`, method, body);

beforeAll(async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  server = await openServer(config, { event: (name, fields) => announce(name, fields) });
  await ask("PUT", "/a");
  await ask("PUT", "/a/doc", {});
});

afterAll(() => server.stop());

/** Returns the ids of the jobs in each list. */
async function shownIds(): Promise<Record<string, string[]>> {
  const { body: scheduler } = await ask("GET", "/_scheduler/jobs");
  const { body: tasks } = await ask("GET", "/_active_tasks");
  return {
    jobs: scheduler.jobs.map(({ id }: { id: string }) => id),
    tasks: tasks.map(({ replication_id: id }: { replication_id: string }) => id),
  };
}

test("a running job is in all lists, with the same members as in CouchDB", async () => {
  const body = { source: "a", target: "running", create_target: true, continuous: true };
  const { body: started } = await ask("POST", "/_replicate", body);
  const id = started._local_id;
  expect(await shownIds()).toEqual({ jobs: [id], tasks: [id] });
  const { body: tasks } = await ask("GET", "/_active_tasks");
  expect(Object.keys(tasks[0]).sort()).toEqual([
    ...["bulk_get_attempts", "bulk_get_docs", "changes_pending", "checkpoint_interval"],
    ...["checkpointed_source_seq", "continuous", "database", "doc_id", "doc_write_failures"],
    ...["docs_read", "docs_written", "missing_revisions_found", "node", "pid", "process_status"],
    ...["replication_id", "revisions_checked", "source", "source_seq", "started_on", "target"],
    ...["through_seq", "type", "updated_on", "user"],
  ]);
  expect(tasks[0]).toMatchObject({ type: "replication", continuous: true, doc_id: null });
  await ask("POST", "/_replicate", { ...body, cancel: true });
  expect(await shownIds()).toEqual({ jobs: [], tasks: [] });
});

test("an ended transient job is not listed, but can be found by its id", async () => {
  const body = { source: "a", target: "ended", create_target: true };
  const { body: answer } = await ask("POST", "/_replicate", body);
  expect(answer).toMatchObject({ ok: true, session_id: expect.any(String) });
  expect(await shownIds()).toEqual({ jobs: [], tasks: [] });
  const { body: all } = await ask("GET", "/_tandem/jobs");
  expect(answer._local_id).toBe(all.jobs[0].id);
  const path = `/_scheduler/jobs/${encodeURIComponent(answer._local_id)}`;
  const { body: job } = await ask("GET", path);
  expect(job).toMatchObject({ state: "completed", info: { docs_written: 1 }, doc_id: null });
});

test("an ended job of a document is listed in _scheduler/docs with its state", async () => {
  const ended = new Promise<unknown>((resolve) => {
    announce = (name, fields) => name === "replication.ended" && resolve(fields?.state);
  });
  await ask("PUT", "/_replicator/copy", { source: "a", target: "copy", create_target: true });
  expect(await ended).toBe("completed");
  const documents = async (query = "") =>
    (await ask("GET", `/_scheduler/docs/_replicator${query}`)).body.docs;
  const shown = { doc_id: "copy", state: "completed", error_count: 0, id: null };
  expect(await documents()).toMatchObject([shown]);
  expect(await documents("?states=completed")).toMatchObject([shown]);
  expect(await documents("?states=crashing,pending")).toEqual([]);
  expect((await ask("GET", "/_scheduler/docs/_replicator/copy")).body).toMatchObject(shown);
});
