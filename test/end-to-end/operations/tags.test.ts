/** Tags of documents and rules, from an operator's view. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { tandem as run } from "../../support/tandem-command.ts";

const FOLLOW = { source: "a", target: "b", create_target: true, continuous: true };
const processes = new Processes();
let node: TandemNode;

beforeAll(async () => {
  node = await processes.openHere({ ini: "[tandem]\nmetric_tags = team\n" });
  await ask("PUT", "/a");
  await ask("PUT", "/_replicator/follow", { ...FOLLOW, tags: { team: "billing", env: "prod" } });
  const broken = { source: "nowhere", target: "b", tags: { team: "sales" } };
  await ask("PUT", "/_replicator/broken", broken);
  await once("follow", ({ state }) => state === "running");
  await once("broken", ({ failing }) => failing === true);
});
afterAll(() => processes.close());

async function ask(method: string, path: string, body?: unknown) {
  const response = await fetch(node.url + path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
  return { status: response.status, body: (await response.json()) as any };
}

// biome-ignore lint/suspicious/noExplicitAny: rows of every shape.
function once(documentId: string, isMet: (job: any) => boolean, of = "_replicator") {
  return node.onceAnswered(
    () => ask("GET", `/_tandem/jobs/${encodeURIComponent(`${of}/${documentId}`)}`),
    ({ body }) => isMet(body),
  );
}

/** Returns the events `added` and `started`. Other events depend on whether the job parks. */
function startsOf({ history }: { readonly history: readonly { readonly type: string }[] }) {
  return history.filter(({ type }) => type === "added" || type === "started");
}

async function named(query: string): Promise<string[]> {
  const { body } = await ask("GET", `/_tandem/jobs?${query}`);
  return body.jobs.map(({ name }: { name: string }) => name).sort();
}

async function tandem(...flags: readonly string[]): Promise<string> {
  const { code, output, errors } = await run(["jobs", ...flags, "--server", node.url]);
  if (code !== 0) throw new Error(errors);
  return output;
}

test("jobs are listed by tags over HTTP and on the command line", async () => {
  expect(await named("tag=team:billing")).toEqual(["_replicator/follow"]);
  expect(await named("tag=team")).toEqual(["_replicator/broken", "_replicator/follow"]);
  expect(await named("tag=team,env:prod")).toEqual(["_replicator/follow"]);
  expect(await tandem("list", "--tag", "team:sales")).toMatch(/_replicator\/broken/);
  expect(await tandem("list", "--tag", "team:sales")).not.toMatch(/_replicator\/follow/);
  expect(await tandem("show", "_replicator/follow")).toMatch(/tags +env:prod, team:billing/);
  expect((await ask("GET", "/_tandem/jobs?tag=Team")).body.reason).toMatch(/^Invalid tag Team\./);
});

test("failing jobs are grouped by a tag", async () => {
  const { body } = await ask("GET", "/_tandem/failing?group_by=tag:team");
  const groups = [{ tag: "sales", count: 1, example: "_replicator/broken", class: "not_found" }];
  expect(body).toMatchObject({ total_rows: 1, jobs: 1, groups });
  expect(await tandem("failing", "--group-by", "tag:team")).toMatch(/JOBS +TAG[^\n]*\n *1 +sales/);
  const refused = await ask("GET", "/_tandem/failing?group_by=team");
  expect(refused.body.reason).toBe("group_by is team; expected the name of a tag, as in tag:team");
});

test("metrics count jobs by the configured tags", async () => {
  const metrics = async () => (await fetch(`${node.url}/_node/_local/_prometheus`)).text();
  expect(await metrics()).toContain(
    'tandem_jobs_tagged{tag="team",value="billing",state="running"} 1',
  );
  expect(await metrics()).not.toContain('tag="env"');
  const path = "/_node/_local/_config/tandem/metric_tags";
  expect((await ask("PUT", path, "Team")).status).toBe(400);
  expect((await ask("PUT", path, "team, env")).status).toBe(200);
  expect(await metrics()).toContain('tandem_jobs_tagged{tag="env",value="prod",state="running"} 1');
});

test("a document that changes only tags does not restart its job", async () => {
  const before = (await once("follow", ({ state }) => state === "running")).body;
  const { body: document } = await ask("GET", "/_replicator/follow");
  const tagged = { ...document, tags: { team: "sales" } };
  expect((await ask("PUT", "/_replicator/follow", tagged)).status).toBe(201);
  const { body: after } = await once("follow", ({ tags }) => tags.team === "sales");
  expect(after.tags).toEqual({ team: "sales" });
  expect(startsOf(after)).toEqual(startsOf(before));
  expect([after.id, after.start_time]).toEqual([before.id, before.start_time]);
  expect(await named("tag=team:billing")).toEqual([]);
  // The run continues, and keeps the tags when it writes its progress.
  await ask("PUT", "/a/later", {});
  await once("follow", ({ info }) => info.docs_written === 1);
  expect(await named("tag=team:sales")).toEqual(["_replicator/broken", "_replicator/follow"]);
});

test("invalid tags are rejected with the field, in documents, requests and rules", async () => {
  const tags = { team: 7 };
  const reason =
    "`tags.team` must be a string of 1 to 128 printable characters without commas, but is 7";
  const document = await ask("PUT", "/_replicator/wrong", { ...FOLLOW, tags });
  expect(document).toMatchObject({ status: 403, body: { error: "forbidden", reason } });
  expect(await ask("POST", "/_replicate", { ...FOLLOW, tags })).toMatchObject({
    status: 400,
    body: { reason },
  });
  const rule = { source: "local", target: "copy-{db}", databases: ["a"], tags };
  expect(await ask("PUT", "/_tandem/rules/wrong", rule)).toMatchObject({
    status: 400,
    body: { reason },
  });
});

test("a rule passes its tags to its jobs, and changes them without a restart", async () => {
  const rule = { source: "local", target: "copy-{db}", databases: ["a"] };
  await ask("PUT", "/_tandem/rules/copies", { ...rule, tags: { team: "ops" } });
  await node.onceAnswered(
    () => ask("GET", "/_tandem/jobs?tag=team:ops"),
    ({ body }) => body.jobs.length === 1,
  );
  // The start of a run appears in the job's history after it appears in the job's state.
  const { body: before } = await once("a", (job) => startsOf(job).length === 2, "copies");
  expect((await ask("GET", "/_tandem/rules/copies")).body.tags).toEqual({ team: "ops" });
  await ask("PUT", "/_tandem/rules/copies", { ...rule, tags: { team: "dev" } });
  const { body: after } = await once("a", ({ tags }) => tags.team === "dev", "copies");
  expect(startsOf(after)).toEqual(startsOf(before));
  expect(after.start_time).toBe(before.start_time);
});
