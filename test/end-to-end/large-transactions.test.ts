/**
 * The largest requests fit into the transactions of every store. FoundationDB limits values to 100
 * kB, and transactions to 10 MB and five seconds. `TANDEM_DOCUMENTS=1000000` sets the size of the
 * database for purge and deletion.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { onSharedStores } from "../support/shared-stores.ts";

const DOCUMENT_COUNT = Number(process.env.TANDEM_DOCUMENTS ?? 2_000);
const BATCH = 1_000;
/** `max_document_size` is 8,000,000 bytes. */
const LARGE = "x".repeat(7_990_000);
/** A document of `_replicator` has at most 2,000,000 characters. */
const LARGE_JOB = "x".repeat(1_990_000);
const BULK = Array.from({ length: 500 }, (_, number) => ({
  _id: `doc-${number}`,
  kind: "bulk",
  text: "y".repeat(100_000),
}));

onSharedStores((openStore) => {
  const processes = new Processes();
  let node: TandemProcess;

  beforeAll(async () => {
    node = await processes.open(openStore(processes));
  });
  afterAll(() => processes.close());

  async function must(method: string, path: string, body?: unknown) {
    const answer = await node.call(method, path, body);
    expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer.body;
  }

  /**
   * Creates a database with an index. The index's design document is one of the database's
   * documents.
   */
  async function withIndex(database: string): Promise<void> {
    await must("PUT", `/${database}`);
    await must("POST", `/${database}/_index`, {
      index: { fields: ["kind"] },
      ddoc: "by",
      name: "kind",
    });
  }

  async function foundOf(database: string, kind: string): Promise<number> {
    const query = { selector: { kind }, fields: ["_id"], limit: 1_000, use_index: "by" };
    return (await must("POST", `/${database}/_find`, query)).docs.length;
  }

  async function replicate(source: string, target: string) {
    return must("POST", "/_replicate", { source, target, create_target: true });
  }

  test("a document of 8 MB is written, indexed, changed, copied and deleted", async () => {
    await withIndex("large");
    const { rev } = await must("PUT", "/large/doc", { kind: "first", text: LARGE });
    expect(await foundOf("large", "first")).toBe(1);
    const second = await must("PUT", "/large/doc", { _rev: rev, kind: "second", text: LARGE });
    expect(await foundOf("large", "first")).toBe(0);
    expect(await foundOf("large", "second")).toBe(1);
    expect(await replicate("large", "large-copy")).toMatchObject({ ok: true });
    expect((await must("GET", "/large-copy/doc")).text).toBe(LARGE);
    await must("DELETE", `/large/doc?rev=${second.rev}`);
    expect(await foundOf("large", "second")).toBe(0);
  });

  test("a document of 2 MB in _replicator starts a job, whose state is written to the document", async () => {
    await must("PUT", "/empty");
    const job = { source: "empty", target: "empty-copy", create_target: true, text: LARGE_JOB };
    await must("PUT", "/_replicator/large", job);
    const completed = await node.onceAnswered(
      () => must("GET", "/_scheduler/docs/_replicator/large"),
      ({ state }) => state === "completed" || state === "failed",
    );
    expect(completed.state).toBe("completed");
    const document = await must("GET", "/_replicator/large");
    expect(document).toMatchObject({ _replication_state: "completed", text: LARGE_JOB });
  });

  test("a user document of 8 MB is stored, and its user can log in", async () => {
    await must("PUT", "/_users/org.couchdb.user:large", {
      ...{ name: "large", type: "user", roles: [], password: "secret", text: LARGE },
    });
    expect((await must("GET", "/_users/org.couchdb.user:large")).text).toBe(LARGE);
    await must("POST", "/_session", { name: "large", password: "secret" });
  });

  test("500 documents of 100 kB in one request are written, indexed and copied", async () => {
    await withIndex("bulk");
    const answers = await must("POST", "/bulk/_bulk_docs", { docs: BULK });
    expect(answers.filter(({ ok }: { ok?: boolean }) => ok === true)).toHaveLength(BULK.length);
    expect(await foundOf("bulk", "bulk")).toBe(BULK.length);
    const { history } = await replicate("bulk", "bulk-copy");
    expect(history[0]).toMatchObject({ docs_written: BULK.length + 1, doc_write_failures: 0 });
    expect((await must("GET", "/bulk-copy/doc-499")).text).toBe(BULK[499]?.text);
  });

  test("documents of a large database are purged; the database is then deleted and re-created", async () => {
    await withIndex("many");
    for (let first = 0; first < DOCUMENT_COUNT; first += BATCH) {
      const docs = Array.from({ length: BATCH }, (_, at) => ({
        _id: `doc-${first + at}`,
        kind: "many",
      }));
      await must("POST", "/many/_bulk_docs", { docs });
    }
    const { rows } = await must("GET", `/many/_all_docs?limit=100&start_key="doc-"`);
    const revisions = rows.map(({ id, value }: { id: string; value: { rev: string } }) => [
      id,
      [value.rev],
    ]);
    const { purged } = await must("POST", "/many/_purge", Object.fromEntries(revisions));
    expect(purged).toEqual(Object.fromEntries(revisions));
    expect((await must("GET", "/many")).doc_count).toBe(DOCUMENT_COUNT + 1 - 100);
    await must("DELETE", "/many");
    await must("PUT", "/many");
    expect(await must("GET", "/many/_all_docs")).toMatchObject({ total_rows: 0, rows: [] });
  });
});
