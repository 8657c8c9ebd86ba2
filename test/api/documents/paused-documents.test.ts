/** Permission to use `paused=true`. */
import { expect, test } from "vitest";
import type { User } from "../../../src/api/index.ts";
import { ADMIN, openApi } from "../api.fixture.ts";

const ANN: User = { name: "ann", roles: [], isAdmin: false };
const REPLICATION = { source: "http://a/a", target: "http://b/b" };

async function openAs(user: User) {
  let current = ADMIN;
  const { ask } = await openApi({ parts: { authenticate: async () => current } });
  for (const name of ["films", "_replicator"]) {
    await ask(`PUT /${name}`);
    await ask(`PUT /${name}/_security`, { body: {} });
  }
  const become = (next: User): void => {
    current = next;
  };
  become(user);
  return { ask, become };
}

test.each([
  [ADMIN, "PUT /_replicator/a?paused=true", REPLICATION, 201],
  [ADMIN, "POST /_replicator/_bulk_docs?paused=true", { docs: [REPLICATION] }, 201],
  [ANN, "PUT /_replicator/a?paused=false", REPLICATION, 201],
  [ANN, "PUT /_replicator/a?paused=true", REPLICATION, 401],
  [ANN, "POST /_replicator/_bulk_docs?paused=true", { docs: [REPLICATION] }, 401],
  [ADMIN, "PUT /films/a?paused=true", {}, 400],
  [ADMIN, "POST /films/_bulk_docs?paused=true", { docs: [{}] }, 400],
  [ADMIN, "PUT /_replicator/a?paused=yes", REPLICATION, 400],
  [ADMIN, `PUT /_replicator/a?paused=true&why=${"x".repeat(201)}`, REPLICATION, 400],
] as const)("%# %s", async (user, request, body, status) => {
  const { ask } = await openAs(user);
  expect((await ask(request, { body })).status).toBe(status);
});

test("a request by an unauthorized user writes nothing", async () => {
  const { ask, become } = await openAs(ANN);
  await ask("POST /_replicator/_bulk_docs?paused=true", { body: { docs: [REPLICATION] } });
  become(ADMIN);
  expect((await ask("GET /_replicator/_all_docs")).json).toMatchObject({ total_rows: 0 });
});
