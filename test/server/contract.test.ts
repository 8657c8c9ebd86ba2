/**
 * The API's contract: a node's responses match its schemas, and the OpenAPI document describes
 * every route.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Job } from "../../src/contract/index.ts";
import { OPERATIONS } from "../../src/contract/operations.ts";
import { closedPort } from "../support/closed-port.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { openWholeApi, wholeRoutes } from "./whole-api.fixture.ts";

let processes: Processes;
let node: TandemNode;

/** A rule that matches no databases. */
const NO_DATABASE = { source: "local", target: "copy-{db}", databases: ["nothing-*"] };

beforeAll(async () => {
  processes = new Processes();
  node = await processes.openHere();
  const host = `127.0.0.1:${await closedPort()}`;
  const validate = `function (doc) { throw { forbidden: "no" }; }`;
  await node.call("PUT", "/films");
  await node.call("PUT", "/films/moon", {});
  await node.call("PUT", "/strict");
  await node.call("PUT", "/strict/_design/v", { validate_doc_update: validate });
  await node.call("PUT", `/_tandem/budgets/${host}`, { read: { requests_per_sec: 1_000 } });
  await node.call("PUT", "/_replicator/strict", { source: "films", target: "strict" });
  const source = `http://${host}/x`;
  const away = { source, target: "films", continuous: true, retries_per_request: 0 };
  await node.call("PUT", "/_replicator/away", away);
  for (const [job, exists] of [
    ["strict", ({ left_behind: count }: Job) => count === 1],
    ["away", ({ failing }: Job) => failing],
  ] as const) {
    const path = `/_tandem/jobs/_replicator%2F${job}`;
    await node.onceAnswered(
      async () => (await node.call("GET", path)).body as Job,
      (answer) => exists(answer),
    );
  }
  await node.call("POST", "/_tandem/jobs/_replicator%2Faway/_pause", {});
  await node.call("PUT", "/_tandem/rules/none", NO_DATABASE);
});

afterAll(() => processes.close());

const AWAY = "/_tandem/jobs/_replicator%2Faway";
const STRICT = "/_tandem/jobs/_replicator%2Fstrict";

const ajv = new Ajv2020({ strict: false, formats: { "date-time": true }, allErrors: true });

/**
 * Fails if the response differs from the schema of the operation, and lists the paths of the
 * differences.
 */
function expectAsDescribed(operation: string, answer: unknown): void {
  const schema = OPERATIONS[operation]?.answer;
  if (schema === undefined) throw new Error(`${operation} has no schema`);
  const validate = ajv.compile(schema);
  validate(answer);
  expect(validate.errors ?? []).toEqual([]);
}

test.each([
  ["GET /_tandem/jobs", "/_tandem/jobs"],
  ["GET /_tandem/jobs/{id}", AWAY],
  ["GET /_tandem/jobs/{id}", STRICT],
  ["GET /_tandem/jobs/{id}/runs", `${STRICT}/runs`],
  ["GET /_tandem/jobs/{id}/failures", `${STRICT}/failures`],
  ["GET /_tandem/jobs/{id}/failures/_counts", `${STRICT}/failures/_counts`],
  ["GET /_tandem/failing", "/_tandem/failing"],
  ["GET /_tandem/nodes", "/_tandem/nodes"],
  ["GET /_tandem/workers", "/_tandem/workers"],
  ["GET /_tandem/rates", "/_tandem/rates"],
  ["GET /_tandem/endpoints", "/_tandem/endpoints"],
  ["GET /_tandem/groups", "/_tandem/groups"],
  ["GET /_tandem/budgets", "/_tandem/budgets"],
  ["GET /_tandem/settings", "/_tandem/settings"],
  ["GET /_tandem/secrets", "/_tandem/secrets"],
  ["GET /_tandem/upgrade", "/_tandem/upgrade"],
  ["GET /_tandem/events/_past", "/_tandem/events/_past"],
  ["GET /_tandem/rules", "/_tandem/rules"],
  ["GET /_tandem/rules/{name}", "/_tandem/rules/none"],
  ["GET /_tandem/openapi.json", "/_tandem/openapi.json"],
])("the response of %s matches its schema: %s", async (operation, path) => {
  const { status, body } = await node.call("GET", path);
  expect(status).toBe(200);
  expectAsDescribed(operation, body);
});

test.each<readonly [operation: string, path: string, body: object]>([
  ["POST /_tandem/jobs/_pause", "/_tandem/jobs/_pause?failing=true&list=true", {}],
  ["POST /_tandem/jobs/{id}/_resume", `${AWAY}/_resume`, {}],
  ["POST /_tandem/jobs/_retry_failures", "/_tandem/jobs/_retry_failures?all=true", {}],
  ["POST /_tandem/jobs/{id}/failures/_retry", `${STRICT}/failures/_retry`, {}],
  ["POST /_tandem/upgrade/_enable", "/_tandem/upgrade/_enable", {}],
  [
    "POST /_tandem/replications/_check",
    "/_tandem/replications/_check?database=_replicator",
    { source: "films", target: "strict" },
  ],
  [
    "POST /_tandem/credentials/_replace",
    "/_tandem/credentials/_replace?dry_run=true",
    {
      host: "http://127.0.0.1:1",
      username: "anna",
      auth: { basic: { username: "anna", password: "b" } },
    },
  ],
])("the response of %s matches its schema: %s", async (operation, path, sent) => {
  const { status, body } = await node.call("POST", path, sent);
  expect([status, body]).toEqual([expect.toBeOneOf([200, 202]), expect.anything()]);
  expectAsDescribed(operation, body);
});

test("the plan of a rule matches its schema", async () => {
  const { body } = await node.call("PUT", "/_tandem/rules/all?dry_run=true", NO_DATABASE);
  expectAsDescribed("PUT /_tandem/rules/{name}", body);
});

test("the comparison with a schema detects unexpected members, missing members, and wrong types", () => {
  const wrong = [
    { ok: true, more: 1 },
    { ok: true, matched: 1 },
    { ok: true, matched: "1", changed: 1 },
  ];
  for (const answer of wrong) {
    expect(() => expectAsDescribed("POST /_tandem/jobs/_pause", answer)).toThrow();
  }
});

test("each operation of the contract is in the OpenAPI document", async () => {
  const { body } = await node.call("GET", "/_tandem/openapi.json");
  const { paths } = body as { paths: Readonly<Record<string, object>> };
  const described = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(described.toSorted()).toEqual(Object.keys(OPERATIONS).toSorted());
});

test("routes that the OpenAPI document omits refuse all requests", async () => {
  const world = await openWholeApi();
  const headers = { Authorization: `Basic ${Buffer.from("root:secret").toString("base64")}` };
  await world.ask("PUT /films", { headers });
  const omitted = wholeRoutes(world)
    .flatMap(({ methods, path }) => methods.map((method) => [method, path] as const))
    .filter(([method]) => ["GET", "PUT", "POST", "DELETE"].includes(method))
    .filter(([method, path]) => OPERATIONS[`${method} ${path.replace("...}", "}")}`] === undefined);
  expect(omitted.length).toBeGreaterThan(20);
  for (const [method, path] of omitted) {
    const place = path.replace("{database}", "films").replaceAll(/\{[a-z.]+\}/g, "x");
    const body = method === "GET" ? undefined : {};
    const { status } = await world.ask(`${method} ${place}`, { headers, body });
    expect([method, path, status]).toEqual([method, path, expect.toBeOneOf([400, 404, 501])]);
  }
});

test("docs/api/openapi.json equals the document that a node serves", async () => {
  const { body } = await node.call("GET", "/_tandem/openapi.json");
  const file = fileURLToPath(new URL("../../docs/api/openapi.json", import.meta.url));
  await expect(`${JSON.stringify(body, null, 2)}\n`).toMatchFileSnapshot(file);
  expect(JSON.parse(readFileSync(file, "utf8"))).toHaveProperty("openapi", "3.1.0");
});

/**
 * Returns the problems that the linter's recommended rules find. The rule about ambiguous paths is
 * off, because some of CouchDB's paths are ambiguous.
 */
async function problemsOf(document: unknown): Promise<readonly string[]> {
  const rules = { "no-ambiguous-paths": "off" } as const;
  const config = await createConfig({ extends: ["recommended"], rules });
  const source = JSON.stringify(document);
  const problems = await lintFromString({ source, config, absoluteRef: "openapi.json" });
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`);
}

test("the linter finds no problem in the OpenAPI document", async () => {
  const { body } = await node.call("GET", "/_tandem/openapi.json");
  expect(await problemsOf(body)).toEqual([]);
});

test.each([
  ["a wrong member", { get: { responses: 7 } }],
  ["an undeclared path parameter", { get: { summary: "x", operationId: "x", responses: {} } }],
])("the linter detects %s", async (_, item) => {
  const { body } = await node.call("GET", "/_tandem/openapi.json");
  const { paths, ...document } = body as { readonly paths: object };
  expect(await problemsOf({ ...document, paths: { ...paths, "/x/{y}": item } })).not.toEqual([]);
});
