/**
 * Two jobs that request the same replication (RFC 016, "Replication ID collisions"). In virtual
 * time.
 */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { DatabaseHook, WriteContext } from "../../../src/databases/index.ts";
import { type JobEntry, parseReplication } from "../../../src/replicator/index.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const FOREVER = new AbortController().signal;
const BODY = { source: "a", target: "b", continuous: true };
const JOE = { userName: "joe", isAdmin: false };
const ANN = { userName: "ann", isAdmin: false };

type Kind = "persistent" | "transient";

/**
 * Starts a job, and then a second job that requests the same replication. Returns the ids of both
 * jobs, and helper functions.
 */
async function collide({ first, second }: { readonly first: Kind; readonly second: Kind }) {
  const node = openVirtualNode({});
  const { world, replicator } = node;
  await node.start();
  for (const name of ["_replicator", "a", "b"]) await node.createDatabase(name);
  const start = async (kind: Kind, name: string, requester: typeof JOE): Promise<string> => {
    if (kind === "transient") {
      return world.until(replicator.start(parseReplication(BODY), requester));
    }
    await node.put("_replicator", name, BODY);
    return (await node.document(name, () => true)).jobId;
  };
  const firstId = await start(first, "first", JOE);
  await world.until(replicator.started(firstId, FOREVER));
  const secondId = await start(second, "second", ANN);
  const find = (id: string) => world.until(replicator.find(id));
  const settled = async () => {
    for (;;) {
      const entry = await find(secondId);
      if (entry?.data.failure !== undefined) return entry;
      await world.time.run(world.time.nowMs + 100);
    }
  };
  const firstStopped = async (): Promise<void> => {
    await world.until(replicator.commands.cancel(firstId, { userName: null }));
  };
  return { node, firstId, secondId, find, settled, firstStopped };
}

test.each([
  { first: "persistent", second: "persistent", state: "failed" },
  { first: "persistent", second: "transient", state: "failed" },
  { first: "transient", second: "persistent", state: "crashing" },
  { first: "transient", second: "transient", state: "crashing" },
] as const)(
  "a $second job is $state while a $first job runs the same replication",
  async ({ first, second, state }) => {
    const { node, firstId, find, settled } = await collide({ first, second });
    // The error does not reveal the name of another user's job.
    const duplicateOf = async () => {
      const { data } = (await find(firstId)) as JobEntry;
      const isSameUser = first === "persistent" && second === "persistent";
      return `Duplicate job running: ${isSameUser ? "_replicator/first" : data.replicationId} (running)`;
    };
    expect(await settled()).toMatchObject({
      state,
      data: { failure: { error: "duplicate_job", reason: await duplicateOf() } },
    });
    expect((await find(firstId))?.state).toBe("running");
    await node.stop();
  },
);

test.each(["persistent", "transient"] as const)(
  "a $0 job that waits for a transient job of the same replication runs after that job has ended",
  async (second) => {
    const { node, secondId, settled, find, firstStopped } = await collide({
      first: "transient",
      second,
    });
    await settled();
    await firstStopped();
    await node.world.time.run(node.world.time.nowMs + 20_000);
    const entry = await find(secondId);
    expect([entry?.state, entry?.data.failure]).toEqual(["running", undefined]);
    await node.stop();
  },
);

test("if two users request the same replication concurrently, both requests complete, and each user finds their own job by the replication id", async () => {
  let letIn = (): void => {};
  const gate = new Promise<void>((resolve) => {
    letIn = resolve;
  });
  // The write of the first run waits until the test releases it.
  const slow: DatabaseHook = {
    appliesTo: (database) => database === "b",
    beforeWrite: async (_tx, _database, edit) => {
      await gate;
      return { edit };
    },
  };
  const node = openVirtualNode({ hooks: [slow] });
  const { world, replicator } = node;
  await node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  await node.put("a", "doc", {});
  const replication = parseReplication({ source: "a", target: "b" });
  const joes = await world.until(replicator.start(replication, JOE));
  await world.until(replicator.started(joes, FOREVER));
  const anns = await world.until(replicator.start(replication, ANN));
  const both = Promise.all([joes, anns].map((id) => replicator.ended(id, FOREVER)));
  await world.time.run(world.time.nowMs + 5000);
  expect((await world.until(replicator.find(anns)))?.state).toBe("crashing");
  letIn();
  expect(await world.until(both)).toMatchObject([
    { kind: "completed", result: { history: [{ docs_written: 1 }] } },
    { kind: "completed", result: { no_changes: true } },
  ]);
  const replicationId = (await world.until(replicator.find(joes)))?.data.replicationId as string;
  const found = async (userName: string | null) =>
    (await world.until(replicator.find(replicationId, { userName })))?.jobId;
  expect([await found("joe"), await found("ann"), await found("eve")]).toEqual([joes, anns, anns]);
  // Cancels the job that owned the replication. The replication id then refers to the other job.
  await world.until(replicator.commands.cancel(anns, { userName: null }));
  expect([await found("joe"), await found("ann")]).toEqual([joes, joes]);
  await node.stop();
});

describe("the same replication requested by two users", () => {
  const URL_OF = (password: string) => `http://jan:${password}@far.example/a`;
  const EVE: WriteContext = { userName: "eve", roles: [], isAdmin: false };
  const JOHN: WriteContext = { userName: "john", roles: [], isAdmin: false };
  const PROXY = "http://dead.example:3128";

  /**
   * Opens a node and a server. The test can change which passwords the server accepts. Requests
   * through a proxy get no response.
   */
  async function openFar() {
    const valid = new Set(["right"]);
    const json = (status: number, members: object) => ({
      status,
      headers: new Map([["content-type", "application/json"]]),
      body: (async function* () {
        yield new TextEncoder().encode(JSON.stringify(members));
      })(),
      discard() {},
    });
    const node = openVirtualNode({
      config: { client: { usesSessions: false } as never, parkAfterSec: 0 },
      fetch: async ({ headers, url, connection, signal }) => {
        const password = atob(headers?.authorization?.replace("Basic ", "") ?? "").split(":")[1];
        const waits = connection?.proxyUrl !== undefined || url.includes("feed=");
        if (!valid.has(password ?? "")) {
          if (connection?.proxyUrl === undefined) return json(401, { error: "unauthorized" });
        } else if (!waits) {
          if (url.includes("_changes"))
            return json(200, { results: [], last_seq: "1", pending: 0 });
          if (url.endsWith("/a/")) return json(200, { update_seq: "1", instance_start_time: "0" });
          return json(404, { error: "not_found", reason: "missing" });
        }
        return new Promise<never>((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
    });
    const { world, kv, databases, replicator } = node;
    await node.start();
    for (const name of ["_replicator", "john/_replicator", "b"]) {
      await node.createDatabase(name);
      const text = JSON.stringify({});
      await world.until(
        kv.transact(async (tx) => (await databases.open(tx, name)).setSecurity(tx, text)),
      );
    }
    const put = async (database: string, writer: WriteContext, members: object) => {
      const body = Utf8Text.of(JSON.stringify({ target: "b", continuous: true, ...members }));
      const id = String(writer.userName);
      const outcome = await world.until(
        kv.transact(async (tx) => {
          const edit = { mode: "interactive", id, parent: undefined, deleted: false } as const;
          return (await databases.open(tx, database)).write(
            tx,
            { ...edit, body, attachments: [] },
            writer,
          );
        }),
      );
      expect(outcome.kind).toBe("written");
      const { uuid } = await world.until(kv.read((tx) => databases.open(tx, database)));
      const entry = await world.until(replicator.findDocument(uuid, id));
      return entry?.jobId as string;
    };
    const start = (source: string | object, userName: string, more: object = {}) =>
      world.until(
        replicator.start(parseReplication({ source, target: "b", continuous: true, ...more }), {
          userName,
          isAdmin: false,
        }),
      );
    const pass = (sec: number) => world.time.run(world.time.nowMs + sec * 1000);
    const state = async (id: string) => (await world.until(replicator.find(id)))?.state;
    return { ...node, valid, put, start, pass, state };
  }

  test.each([
    ["a wrong password", { source: URL_OF("wrong") }],
    ["a dead proxy", { source: URL_OF("right"), source_proxy: PROXY }],
    ["a wrong password and a dead proxy", { source: URL_OF("wrong"), source_proxy: PROXY }],
  ])(
    "runs for the user whose credentials are valid, even if the other user's job keeps trying with %s",
    async (_, eves) => {
      for (const kinds of ["documents", "a request and a document", "a document and a request"]) {
        const node = await openFar();
        const first =
          kinds === "a request and a document"
            ? await node.start(eves.source, "eve", { ...eves })
            : await node.put("_replicator", EVE, eves);
        await node.pass(3);
        const second =
          kinds === "a document and a request"
            ? await node.start(URL_OF("right"), "john")
            : await node.put("john/_replicator", JOHN, { source: URL_OF("right") });
        await node.pass(5);
        expect(await node.state(second)).not.toBe("failed");
        await node.pass(180);
        for (let minute = 0; minute < 30; minute++) {
          expect([kinds, await node.state(second)]).toEqual([kinds, "running"]);
          await node.pass(60);
        }
        const victim = (await node.world.until(node.replicator.find(second)))?.data;
        expect(victim?.failure).toBeUndefined();
        expect(["crashing", "failed"]).toContain(await node.state(first));
        await node.stop();
      }
    },
  );

  test("is taken over by the second user's job when the first user's credentials become invalid, and stays with that job", async () => {
    const node = await openFar();
    node.valid.add("old");
    const first = await node.put("_replicator", EVE, { source: URL_OF("old") });
    await node.pass(3);
    const second = await node.put("john/_replicator", JOHN, { source: URL_OF("right") });
    await node.pass(60);
    expect([await node.state(first), await node.state(second)]).toEqual(["running", "crashing"]);
    node.valid.delete("old");
    // Restarting the job ends its feed. The server then refuses the job's next request.
    await node.world.until(node.replicator.commands.startFrom(first, 0, { userName: "eve" }));
    await node.pass(700);
    expect([await node.state(first), await node.state(second)]).toEqual(["crashing", "running"]);
    await node.pass(3_600);
    expect(await node.state(second)).toBe("running");
    await node.stop();
  });

  test("is copied by one run, and if two runs have started, the run that was accepted first continues", async () => {
    const node = await openFar();
    const jobs = [
      await node.put("_replicator", EVE, { source: URL_OF("right") }),
      await node.put("john/_replicator", JOHN, { source: URL_OF("right") }),
    ];
    await node.pass(30);
    for (let minute = 0; minute < 10; minute++) {
      const states = await Promise.all(jobs.map((id) => node.state(id)));
      expect(states.toSorted()).toEqual(["crashing", "running"]);
      await node.pass(60);
    }
    await node.stop();
  });
});
