/** Three nodes with different labels share a store. Jobs run on the nodes that `run_on` selects. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { onceAnswered, Processes, type TandemProcess } from "../../support/open-process.ts";
import { onSharedStores } from "../../support/shared-stores.ts";
import { tandem as run } from "../../support/tandem-command.ts";

const LABELS = { berlin: "site:berlin, disk:ssd", paris: "site:paris", plain: "" };
type Name = keyof typeof LABELS;
const REASON =
  "No running node has the label site:berlin; add them to [tandem] labels of a node and restart it, or change `run_on`";

onSharedStores((openStore) => {
  const processes = new Processes();
  const shared = openStore(processes);
  const nodes = new Map<Name, TandemProcess>();

  async function start(name: Name): Promise<void> {
    const { directory, storeIni = "" } = shared;
    const file = join(directory, `${name}.ini`);
    const tandem = `[tandem]\nnode_name = tandem@${name}\nlabels = ${LABELS[name]}\n`;
    // Jobs must run instead of being parked.
    writeFileSync(file, `${storeIni}${tandem}[replicator]\npark_after_sec = 0\n`);
    nodes.set(name, await processes.open({ directory, flags: ["--config", file] }));
  }

  beforeAll(async () => {
    for (const name of Object.keys(LABELS) as Name[]) await start(name);
    await plain().call("PUT", "/a");
    await plain().call("PUT", "/a/doc", { value: 1 });
  });
  afterAll(() => processes.close());

  function plain(): TandemProcess {
    return nodes.get("plain") as TandemProcess;
  }

  async function put(id: string, members: object): Promise<void> {
    const path = `/_replicator/${id}`;
    const { body: stored } = await plain().call("GET", path);
    const follow = { source: "a", target: `copy-${id}`, create_target: true, continuous: true };
    const rev = stored._rev === undefined ? {} : { _rev: stored._rev };
    const { status, body } = await plain().call("PUT", path, { ...follow, ...members, ...rev });
    expect([status, body.reason]).toEqual([201, undefined]);
  }

  /** Waits until `passes` accepts the job. Checks the job after each event of any node. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of every shape.
  async function once(name: string, passes: (job: any) => boolean) {
    const { body } = await onceAnswered(
      [...nodes.values()],
      () => plain().call("GET", `/_tandem/jobs/${encodeURIComponent(name)}`),
      ({ body: job }) => passes(job),
    );
    return body;
  }

  function runsOn(id: string, node: Name) {
    return once(
      `_replicator/${id}`,
      (job) => job.state === "running" && job.node === `tandem@${node}`,
    );
  }

  async function tandem(...flags: readonly string[]): Promise<string> {
    const { code, output, errors } = await run([...flags, "--server", plain().url]);
    if (code !== 0) throw new Error(errors);
    return output;
  }

  test("nodes show their labels", async () => {
    const { body } = await onceAnswered(
      [...nodes.values()],
      () => plain().call("GET", "/_tandem/nodes"),
      ({ body: page }) => page.nodes.length === 3,
    );
    const shown = body.nodes.map(({ name, labels }: { name: string; labels: string[] }) => [
      name,
      labels,
    ]);
    expect(Object.fromEntries(shown)).toEqual({
      "tandem@berlin": ["disk:ssd", "site:berlin"],
      "tandem@paris": ["site:paris"],
      "tandem@plain": [],
    });
    expect(await tandem("nodes", "list")).toMatch(/VERSION +LABELS[\s\S]*disk:ssd, site:berlin/);
  });

  test("jobs run on nodes with all labels of `run_on`", async () => {
    await put("berlin", { run_on: ["site:berlin"] });
    await put("ssd", { run_on: ["site:berlin", "disk:ssd"] });
    await put("paris", { run_on: ["site:paris"] });
    await put("any", {});
    await runsOn("berlin", "berlin");
    await runsOn("ssd", "berlin");
    await runsOn("paris", "paris");
    const job = await once("_replicator/any", ({ state }) => state === "running");
    expect([job.run_on, job.held_back_by]).toEqual([[], null]);
    expect(await tandem("jobs", "show", "_replicator/ssd")).toMatch(
      /required labels +disk:ssd, site:berlin/,
    );
  });

  test("an invalid `run_on` is rejected with a reason", async () => {
    const document = { source: "a", target: "b", run_on: ["Berlin"] };
    const { status, body } = await plain().call("PUT", "/_replicator/invalid", document);
    expect(status).toBe(403);
    expect(body.reason).toMatch(/^`run_on\[0\]` must be a label of .*, but is "Berlin"$/);
    const posted = await plain().call("POST", "/_replicate", { ...document, run_on: "berlin" });
    expect([posted.status, posted.body.reason]).toEqual([
      400,
      '`run_on` must be a list of labels such as ["site:berlin"], but is "berlin"',
    ]);
  });

  test("a job moves to another node without being re-created when its document changes `run_on`", async () => {
    const before = await runsOn("paris", "paris");
    await put("paris", { run_on: ["site:berlin"] });
    const after = await runsOn("paris", "berlin");
    expect(after.id).toBe(before.id);
    const added = after.history.filter(({ type }: { type: string }) => type === "added");
    expect(added).toHaveLength(1);
    await put("paris", { run_on: ["site:paris"] });
    await runsOn("paris", "paris");
  });

  test("jobs of a rule run on nodes with the labels in the rule's `run_on`", async () => {
    const rule = { source: "local", target: "rule-{db}", databases: ["a"], run_on: ["site:paris"] };
    expect((await plain().call("PUT", "/_tandem/rules/backup", rule)).status).toBe(201);
    const job = await once("backup/a", ({ state }) => state === "running");
    expect([job.node, job.run_on]).toEqual(["tandem@paris", ["site:paris"]]);
    await plain().call("PUT", "/_tandem/rules/backup", { ...rule, run_on: ["site:berlin"] });
    await once("backup/a", ({ node }) => node === "tandem@berlin");
  });

  test("jobs wait, and name the labels that no node has, until a node with these labels starts", async () => {
    await nodes.get("berlin")?.kill();
    nodes.delete("berlin");
    const job = await once("_replicator/berlin", ({ held_back_by: by }) => by === "placement");
    expect([job.state, job.node, job.info]).toEqual([
      "pending",
      null,
      { error: `no_node: ${REASON}` },
    ]);
    const { body } = await plain().call("GET", "/_scheduler/docs/_replicator/berlin");
    expect([body.state, body.info]).toEqual(["pending", { error: `no_node: ${REASON}` }]);
    const { body: listed } = await plain().call("GET", "/_scheduler/jobs");
    const row = listed.jobs.find(({ doc_id: id }: { doc_id: string }) => id === "berlin");
    expect(row.info).toEqual({ error: `no_node: ${REASON}` });
    const metrics = await fetch(`${plain().url}/_node/_local/_prometheus`);
    expect(await metrics.text()).toMatch(/^tandem_jobs_unplaced [1-9]/m);
    const shown = await tandem("jobs", "show", "_replicator/berlin");
    expect(shown).toMatch(/held back by +placement/);
    expect(shown).toContain(REASON);
    await once(
      "_replicator/any",
      ({ state, node }) => state === "running" && node !== "tandem@berlin",
    );
    await runsOn("paris", "paris");

    await start("berlin");
    await runsOn("berlin", "berlin");
    expect((await runsOn("ssd", "berlin")).held_back_by).toBe(null);
  });
});
