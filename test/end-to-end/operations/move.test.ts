/**
 * `tandem move`, with every command of docs/coming-from-couchdb.md. One server acts as the old
 * CouchDB, and jobs move between this server and another one.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { pageCommands } from "../../support/pages/page-commands.ts";
import { type Ran, tandem as run } from "../../support/tandem-command.ts";

const PAGE = readFileSync(new URL("../../../docs/coming-from-couchdb.md", import.meta.url), "utf8");
const UUID = "00112233445566778899aabbccddeeff";
const OTHER_UUID = "ffeeddccbbaa99887766554433221100";
const ini = (uuid: string) => `[couchdb]\nuuid = ${uuid}\n[replicator]\npark_after_sec = 1\n`;

const processes = new Processes();
let old: TandemNode;
let node: TandemNode;

beforeAll(async () => {
  old = await processes.openHere({ ini: ini(UUID) });
  node = await processes.openHere({ ini: ini(UUID) });
  await old.call("PUT", "/films");
  await old.call("POST", "/films/_bulk_docs", {
    docs: Array.from({ length: 20 }, (_, index) => ({ _id: `film-${index}` })),
  });
});
afterAll(() => processes.close());

const tandem = (server: TandemNode, words: readonly string[]): Promise<Ran> =>
  run(words, { environment: { TANDEM_SERVER: server.url } });

const move = (...words: readonly string[]) => tandem(node, ["move", ...words, "--from", old.url]);

/** The commands of the page's code blocks, with the addresses of the test's servers. */
const [THERE = [], BACK = []] = pageCommands(PAGE);
function ofPage(words: readonly string[]): Promise<Ran> {
  return tandem(
    node,
    words.map((word) => (word === "http://old:5984" ? old.url : word)),
  );
}

function replication(target: string, more: object = {}): object {
  const base = old.url;
  return { source: `${base}/films`, target: `${base}/${target}`, create_target: true, ...more };
}

/**
 * Resolves when the job has copied everything: it has completed, or has written its checkpoint and
 * is parked.
 */
function caughtUp(server: TandemNode, id: string) {
  return server.onceAnswered(
    async () => (await server.call("GET", `/_tandem/jobs/_replicator%2F${id}`)).body,
    ({ parked, state }) => parked === true || state === "completed",
  );
}

/**
 * Returns the number of documents that each run of a job on this node has read, latest run first.
 */
async function readCounts(id: string): Promise<readonly number[]> {
  const { body } = await node.call("GET", `/_tandem/jobs/_replicator%2F${id}/runs`);
  return body.runs.map(({ docs_read }: { readonly docs_read: number }) => docs_read);
}

const jobCount = async (server: TandemNode) =>
  (await server.call("GET", "/_scheduler/jobs")).body.total_rows;

test("replications are adopted, continue from their checkpoints, and can be returned to the old server", async () => {
  await old.call("PUT", "/_replicator/first", replication("first", { continuous: true }));
  const selector = { _id: { $regex: "1$" } };
  await old.call("PUT", "/_replicator/part", replication("part", { continuous: true, selector }));
  await old.call("PUT", "/_replicator/once", replication("once"));
  for (const id of ["first", "part", "once"]) await caughtUp(old, id);

  const [plan, take, stopFirst, startFirst, verifyFirst, stop, start, verify] = THERE;
  const planned = await ofPage(plan ?? []);
  expect(planned.output.match(/same id/g)).toHaveLength(2);
  expect([planned.code, await jobCount(node)]).toEqual([0, 0]);

  expect((await ofPage(take ?? [])).output).toContain("2 taken, paused, 1 taken, has ended");
  expect(await jobCount(old)).toBe(2);
  const refused = await move("start");
  expect([refused.code, refused.output.match(/the old server still runs it/g)?.length]).toEqual([
    1, 2,
  ]);
  expect((await ofPage(stopFirst ?? [])).output).toContain("1 stopped");
  expect((await ofPage(startFirst ?? [])).output).toContain("1 started, 1 not started");
  expect((await ofPage(verifyFirst ?? [])).code).toBe(1);
  expect((await ofPage(stop ?? [])).output).toContain("part: stopped");
  expect(await jobCount(old)).toBe(0);
  expect((await ofPage(start ?? [])).output).toContain("part: started");
  for (const id of ["first", "part"]) await caughtUp(node, id);
  const verified = await ofPage(verify ?? []);
  expect(verified.output).toContain("first: running: the target is complete");
  expect(verified.code).toBe(0);

  await old.call("PUT", "/films/later", {});
  await node.onceAnswered(
    () => readCounts("first"),
    (counts) => counts.includes(1),
  );
  expect((await readCounts("first")).reduce((sum, count) => sum + count, 0)).toBe(1);
  expect((await readCounts("part")).every((count) => count === 0)).toBe(true);

  const [backFirst, back] = BACK;
  expect((await ofPage(backFirst ?? [])).output).toContain("1 moved back");
  expect((await ofPage(back ?? [])).output).toContain(
    "1 deleted here, kept on the old server, 1 moved back",
  );
  expect((await node.call("GET", "/_tandem/jobs")).body.total_rows).toBe(0);
  await caughtUp(old, "first");
  const { body } = await old.call("GET", "/_tandem/jobs/_replicator%2Ffirst/runs");
  expect(body.runs.map((run: { readonly docs_read: number }) => run.docs_read)).toEqual([0]);
});

test("a document changed on both sides is reported by its id, and neither version is overwritten", async () => {
  const replicator = "/a%2F_replicator";
  await old.call("PUT", replicator);
  await old.call("PUT", `${replicator}/_security`, { members: { names: ["ann"] } });
  const { body: made } = await old.call(
    "PUT",
    `${replicator}/rivals`,
    replication("rivals", { continuous: true }),
  );
  const where = ["--database", "a/_replicator"];
  expect((await move("take", ...where)).output).toContain("1 taken, paused");
  expect((await node.call("GET", `${replicator}/_security`)).body.members.names).toEqual(["ann"]);
  expect((await move("take", ...where)).output).toContain("here already");

  const changed = { ...replication("rivals-2", { continuous: true }), _rev: made.rev };
  await old.call("PUT", `${replicator}/rivals`, changed);
  const untaken = await move("stop", ...where);
  expect([untaken.code, untaken.output]).toEqual([1, expect.stringContaining("run `take` first")]);
  expect((await move("take", ...where)).output).toContain("1 taken, paused");

  const { body: there } = await old.call("GET", `${replicator}/rivals`);
  for (const server of [old, node]) {
    const weight = server === old ? 1 : 2;
    await server.call("PUT", `${replicator}/rivals`, { ...there, weight });
  }
  const conflict = await move("take", ...where, "--json");
  expect(conflict.code).toBe(1);
  const [outcome] = JSON.parse(conflict.output).documents;
  expect(outcome).toMatchObject({ id: "rivals", outcome: "refused", isProblem: true });
  expect((await node.call("GET", `${replicator}/rivals`)).body.weight).toBe(2);
  await node.call("DELETE", replicator);
  await old.call("DELETE", replicator);
});

test("documents keep every number and the order of members when they are moved and moved back", async () => {
  const database = "/b%2F_replicator";
  const members = '"n":369553424691494913,"f":[1.0,1e3,-0.0],"o":{"1":1,"0":2}';
  const selector = '"selector":{"n":{"$gt":9007199254740993}}';
  const ends = `"source":"${old.url}/films","target":"${old.url}/exact","continuous":true`;
  await old.call("PUT", database);
  const made = await old.call("PUT", `${database}/exact`, `{${ends},${selector},${members}}`);
  expect(made.status).toBe(201);
  const textAt = async ({ url }: TandemNode) => (await fetch(`${url}${database}/exact`)).text();
  const where = ["--database", "b/_replicator"];
  expect((await move("take", ...where)).output).toContain("1 taken, paused");
  const taken = await textAt(node);
  expect(taken).toContain(members);
  expect(taken).toContain(selector);
  expect((await move("stop", ...where)).output).toContain("1 stopped");
  expect((await move("back", ...where)).output).toContain("1 moved back");
  const back = await textAt(old);
  expect(back).toContain(members);
  expect(back).toContain(selector);
  await node.call("DELETE", database);
  await old.call("DELETE", database);
});

test("a move is refused until this node has the uuid of the old server, and --take-uuid fails while a job is not paused", async () => {
  const directory = processes.directory();
  const open = () => processes.open({ directory, ini: "[replicator]\n" });
  let other = await open();
  await other.call("PUT", "/_node/_local/_config/couchdb/uuid", OTHER_UUID);
  await other.stop();
  other = await open();
  const from = ["--from", old.url];
  const refused = await tandem(other, ["move", "take", ...from]);
  expect([refused.code, refused.output]).toEqual([1, ""]);
  const options = [`move take --take-uuid --from ${old.url}`, `config set couchdb uuid ${UUID}`];
  for (const option of options) expect(refused.errors).toContain(`tandem ${option}\n`);
  expect((await tandem(other, ["move", ...from])).code).toBe(1);
  await other.call("PUT", "/_replicator/own", replication("own", { continuous: true }));
  const takeUuid = ["move", "take", "--take-uuid", ...from];
  expect((await tandem(other, takeUuid)).errors).toContain("1 job is not paused here");
  const { body } = await other.call("GET", "/_replicator/own");
  await other.call("DELETE", `/_replicator/own?rev=${body._rev}`);
  const given = await tandem(other, takeUuid);
  expect([given.code, given.errors]).toEqual([0, ""]);
  expect(given.output).toContain(`this node will have the uuid ${UUID} after its next start`);
  const inJson = await tandem(other, [...takeUuid, "--json"]);
  expect([inJson.code, JSON.parse(inJson.output)]).toEqual([0, { uuid: UUID, documents: [] }]);
  await other.stop();
  other = await open();
  expect((await other.call("GET", "/")).body.uuid).toBe(UUID);
  const taken = await tandem(other, ["move", "take", ...from]);
  expect([taken.code, taken.errors]).toEqual([0, ""]);
});

test("wrong usage of tandem move ends with exit code 2", async () => {
  expect((await tandem(node, ["move"])).code).toBe(2);
  expect((await tandem(node, ["move", "take", "--from", "ftp://x"])).code).toBe(2);
  expect((await tandem(node, ["move", "take", "--from", node.url])).code).toBe(2);
  expect((await move("take", "--limit", "0")).code).toBe(2);
});
