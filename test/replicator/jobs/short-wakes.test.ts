/**
 * Requests that a parked job sends to its servers after a watcher has woken it. The job resumes
 * where it parked, unless a database was re-created. In virtual time.
 */
import { afterEach, expect, test, vi } from "vitest";
import { Utf8Text, utf8Decode, utf8Encode } from "../../../src/base/index.ts";
import {
  type Fetch,
  type FetchRequest,
  RequestFailedError,
} from "../../../src/http-client/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { decideParked } from "../../../src/replicator/jobs/decide.ts";
import { World } from "../../simulation/kernel/world.ts";
import {
  type Answer,
  plainAnswer,
  responseOf,
} from "../../simulation/network/simulated-network.ts";
import { SERVER_HOST, SimulatedServer } from "../../simulation/network/simulated-server.ts";
import { composeNode } from "../../support/compose-node.ts";
import { ADMIN } from "../../support/open-node.ts";
import { unbatched } from "../../support/unbatched.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: true };
const AT_SERVER = `http://jan:secret@${SERVER_HOST}`;

const LATE = {
  mode: "interactive",
  id: "late",
  parent: undefined,
  deleted: false,
  body: Utf8Text.of("{}"),
} as const;

interface Log {
  readonly history: readonly {
    readonly session_id: string;
    readonly start_last_seq: unknown;
    readonly end_last_seq: unknown;
  }[];
}

const NOT_ALLOWED = plainAnswer(405, '{"error":"method_not_allowed"}');
const CONFLICT = plainAnswer(409, '{"error":"conflict"}');
const COUCHDB = "CouchDB/3.5.0 (Erlang OTP/25)";
const TANDEM = "CouchDB/3.5.0 (Tandem 0.1.0)";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/**
 * Returns the response as sent by a server that does not report when its databases were created.
 */
function withoutStartTimes(answer: Answer): Answer {
  const text = utf8Decode(answer.bytes).replace(/("instance_start_time"):"\d+"/, '$1:"0"');
  return { ...answer, bytes: utf8Encode(text) };
}

/**
 * Opens a node with a parked job. The source and the target are databases of a server that counts
 * requests.
 */
async function openParked(
  serverName = COUCHDB,
  { isEmpty = false, options = {}, auditIntervalSec = 4 * 3600, hidesStartTimes = false } = {},
) {
  const world = new World("short-wakes");
  const server = new SimulatedServer(composeNode(world.openNode()));
  const asked: string[] = [];
  /** Callbacks by request. Each callback is called once, before its request is served. */
  const before = new Map<string, () => Promise<unknown>>();
  /** Request whose next response is lost after the server has executed the request. */
  let lost: string | undefined;
  /**
   * Write (method and path) whose response was lost. If the write is repeated, the server responds
   * with a conflict, as CouchDB does.
   */
  let written: string | undefined;
  const unknown = new Set<string>();
  const serve = (request: FetchRequest) => {
    const { pathname } = new URL(request.url);
    if (pathname !== "/_session") return server.serve(request);
    const headers = { "set-cookie": "AuthSession=jan; Max-Age=600" };
    return Promise.resolve({ ...plainAnswer(200, '{"ok":true}'), headers });
  };
  const fetch: Fetch = async (request) => {
    const { pathname } = new URL(request.url);
    const shown = `${request.method} ${pathname.replace(/_local\/[^/]*/, "_local/ID")}`;
    // The watcher's polls are not recorded, because it polls continuously for all parked jobs
    // together.
    if (pathname !== "/_db_updates" && pathname !== "/_dbs_info") {
      asked.push(shown);
      const happening = before.get(shown);
      before.delete(shown);
      await happening?.();
    }
    await world.time.sleep(1, request.signal);
    const refusal = unknown.has(shown) ? NOT_ALLOWED : shown === written ? CONFLICT : undefined;
    const known = refusal ?? (await serve(request));
    const answer = hidesStartTimes ? withoutStartTimes(known) : known;
    if (shown === lost) {
      lost = undefined;
      if (request.method === "PUT") written = shown;
      throw new RequestFailedError({ ...request, cause: "ECONNRESET" });
    }
    return responseOf({ ...answer, headers: { ...answer.headers, server: serverName } });
  };
  const node = openVirtualNode({
    world,
    fetch: unbatched(fetch),
    config: { parkAfterSec: 10, auditIntervalSec },
  });
  stops.push(() => node.stop());
  await node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  if (!isEmpty) await node.put("a", "first", {});
  const body = { source: `${AT_SERVER}/a`, target: `${AT_SERVER}/b`, continuous: true, ...options };
  const id = await world.until(node.replicator.start(parseReplication(body), JOE));
  const onceParked = async (): Promise<void> => {
    const parkedCount = () => node.names.filter((name) => name === "replication.parked").length;
    const countBefore = parkedCount();
    const isParked = () => parkedCount() > countBefore;
    expect(await world.time.run(world.time.nowMs + 600_000, isParked)).toBe(true);
  };
  await onceParked();
  return {
    ...node,
    id,
    asked,
    before,
    onceParked,
    wakeCount: () => node.names.filter((name) => name === "replication.woken").length,
    /** Writes new documents in one transaction. */
    async putTogether(name: string, ids: readonly string[]): Promise<void> {
      const { kv, databases } = node;
      const write = kv.transact(async (tx) => {
        const database = await databases.open(tx, name);
        for (const id of ids) await database.write(tx, { ...LATE, id, attachments: [] }, ADMIN);
      });
      await world.until(write);
    },
    /**
     * Writes a document to the source. Returns the requests that the servers receive until the job
     * is parked again.
     */
    async wake(name: string): Promise<readonly string[]> {
      // Sessions are renewed after nine tenths of their lifetime. During this minute, the watcher's
      // requests renew the session if necessary.
      await world.time.run(world.time.nowMs + 60_000);
      asked.splice(0);
      await node.put("a", name, {});
      await onceParked();
      return [...asked];
    },
    async remake(name: string): Promise<void> {
      const { kv, databases } = node;
      await world.until(kv.transact((tx) => databases.remove(tx, name)));
      await node.createDatabase(name);
    },
    loseAnswerTo: (request: string): void => {
      lost = request;
    },
    refuse: (request: string): void => {
      unknown.add(request);
    },
    serveAgain: (request: string): void => {
      unknown.delete(request);
    },
    /** Returns the job's checkpoint in a database. */
    log: async (name: string): Promise<Log> => {
      const { kv, databases } = node;
      const { entries } = await world.until(
        kv.read(async (tx) => (await databases.open(tx, name)).local.page(tx)),
      );
      return JSON.parse(entries[0]?.body.text ?? "");
    },
    has: (database: string, name: string): Promise<boolean> =>
      world.until(
        node.kv.read(async (tx) => {
          const opened = await node.databases.open(tx, database);
          return (await opened.documents.read(tx, name)) !== undefined;
        }),
      ),
  };
}

const count = (asked: readonly string[], request: string): number =>
  asked.filter((each) => each === request).length;

/** Sorted list of the requests that copy one changed document. */
const FOR_ONE_CHANGE = [
  "GET /a/_changes",
  "GET /a/_local/ID",
  "GET /b/_local/ID",
  "POST /a/_bulk_get",
  "POST /b/_bulk_docs",
  "POST /b/_revs_diff",
  "PUT /a/_local/ID",
  "PUT /b/_local/ID",
];

/** Sorted list of the requests that copy one changed document between two Tandem servers. */
const FOR_ONE_CHANGE_OF_TANDEMS = [
  "GET /a/_changes",
  "POST /a/_bulk_get",
  "POST /a/_local/ID/_continue",
  "POST /b/_bulk_docs",
  "POST /b/_local/ID/_continue",
  "POST /b/_revs_diff",
];

test("a woken job sends only the necessary requests to each side, parks immediately, and does not log in again", async () => {
  const node = await openParked();
  const asked = await node.wake("second");
  expect(await node.has("b", "second")).toBe(true);
  expect(asked.toSorted()).toEqual(FOR_ONE_CHANGE);
  expect(await node.wake("third")).toEqual(asked);
});

test("a woken job between two Tandem servers adds to its cached checkpoint in one request", async () => {
  const node = await openParked(TANDEM);
  const asked = await node.wake("second");
  expect(await node.has("b", "second")).toBe(true);
  expect(asked.toSorted()).toEqual(FOR_ONE_CHANGE_OF_TANDEMS);
  expect(await node.wake("third")).toEqual(asked);
  expect(node.names).not.toContain("replication.place-lost");
  const [source, target] = [await node.log("a"), await node.log("b")];
  expect(source).toEqual(target);
  const places = source.history.map(({ start_last_seq, end_last_seq }) => [
    start_last_seq,
    end_last_seq,
  ]);
  const [third, second, first] = places;
  expect(places).toEqual([
    [second?.[1], third?.[1]],
    [first?.[1], second?.[1]],
    [0, first?.[1]],
  ]);
});

test("a long run adds to the checkpoint that it wrote itself", async () => {
  const options = { worker_processes: 1, worker_batch_size: 1, checkpoint_interval: 1000 };
  const node = await openParked(TANDEM, { options });
  const { world } = node;
  await world.time.run(world.time.nowMs + 60_000);
  node.before.set("POST /b/_bulk_docs", async () => {
    // Delays the write of the second document, so that the run writes a checkpoint before it.
    node.before.set("POST /b/_bulk_docs", () => world.time.sleep(5000));
  });
  node.asked.splice(0);
  await node.putTogether("a", ["second", "third"]);
  await node.onceParked();
  expect(count(node.asked, "POST /a/_local/ID/_continue")).toBe(2);
  expect(await node.has("b", "third")).toBe(true);
  const log = await node.log("a");
  expect(log.history).toHaveLength(2);
  expect(log).toEqual(await node.log("b"));
});

test("if the response to an addition to a checkpoint is lost, the run repeats the request", async () => {
  const node = await openParked(TANDEM);
  node.loseAnswerTo("POST /b/_local/ID/_continue");
  const asked = await node.wake("second");
  expect(count(asked, "POST /b/_local/ID/_continue")).toBe(2);
  expect(node.names).not.toContain("replication.place-lost");
  expect(await node.log("a")).toEqual(await node.log("b"));
});

test("if the response to a checkpoint write is lost, the run reads the checkpoint to verify the write", async () => {
  const node = await openParked();
  node.loseAnswerTo("PUT /b/_local/ID");
  const asked = await node.wake("second");
  expect(count(asked, "PUT /b/_local/ID")).toBe(2);
  expect(count(asked, "GET /b/_local/ID")).toBe(2);
  expect(node.names).not.toContain("replication.place-lost");
  expect(await node.log("a")).toEqual(await node.log("b"));
});

test("if a Tandem server does not know the request that continues a checkpoint, a run reads and writes the checkpoint as it does with CouchDB", async () => {
  const node = await openParked(TANDEM);
  for (const name of ["a", "b"]) node.refuse(`POST /${name}/_local/ID/_continue`);
  const asked = await node.wake("second");
  expect(asked).toHaveLength(FOR_ONE_CHANGE.length + 2);
  expect(node.names).not.toContain("replication.place-lost");
  expect(await node.log("a")).toEqual(await node.log("b"));
});

test("the first change of an empty database costs two additional requests, which identify the databases because there is no checkpoint", async () => {
  const node = await openParked(undefined, { isEmpty: true });
  const asked = await node.wake("first");
  expect(await node.has("b", "first")).toBe(true);
  expect(asked.toSorted()).toEqual([...FOR_ONE_CHANGE, "GET /a/", "GET /b/"].toSorted());
  expect(node.names).not.toContain("replication.place-lost");
});

test("the first change of an empty database costs no additional requests between two Tandem servers", async () => {
  const node = await openParked(TANDEM, { isEmpty: true });
  const asked = await node.wake("first");
  expect(await node.has("b", "first")).toBe(true);
  expect(asked.toSorted()).toEqual(FOR_ONE_CHANGE_OF_TANDEMS);
  expect(node.names).not.toContain("replication.place-lost");
  expect(await node.log("a")).toEqual(await node.log("b"));
  expect((await node.log("a")).history).toHaveLength(1);
});

test.each(["CouchDB/2.3.1 (Erlang OTP/19)", "nginx"])(
  "a woken job sends commits to a server that identifies as %s",
  async (serverName) => {
    const node = await openParked(serverName);
    const asked = await node.wake("second");
    const commits = ["POST /a/_ensure_full_commit", "POST /b/_ensure_full_commit"];
    expect(asked.filter((each) => each.endsWith("commit")).toSorted()).toEqual(commits);
    expect(asked).toHaveLength(10);
  },
);

test("a run reads both checkpoints between its last write of a document and its first write of a checkpoint", async () => {
  const node = await openParked();
  const asked = await node.wake("second");
  const place = (request: string): number => asked.indexOf(request);
  for (const name of ["a", "b"]) {
    expect(place(`GET /${name}/_local/ID`)).toBeGreaterThan(place("POST /b/_bulk_docs"));
    expect(place(`GET /${name}/_local/ID`)).toBeLessThan(place("PUT /a/_local/ID"));
  }
});

test("a short run is recorded in the job when the run ends, and a longer run while it is still in progress", async () => {
  const node = await openParked();
  const { world, replicator } = node;
  const history = async () => {
    const entry = await world.until(replicator.find(node.id));
    return entry?.data.history.map(({ type }) => type).slice(0, 2);
  };
  const update = vi.spyOn(node.jobs, "update");
  // Updates of the watcher's own job do not count.
  const updateCount = () => update.mock.calls.filter(([, { id }]) => id === node.id).length;
  await node.wake("second");
  expect(updateCount()).toBe(0);
  expect(await history()).toEqual(["parked", "started"]);
  await world.time.run(world.time.nowMs + 60_000);
  const isAsked = vi.fn(() => world.time.sleep(3000));
  node.before.set("GET /a/_changes", isAsked);
  await node.put("a", "third", {});
  await world.time.run(world.time.nowMs + 60_000, () => isAsked.mock.calls.length > 0);
  await world.time.run(world.time.nowMs + 2000);
  expect((await history())?.[0]).toBe("started");
  expect(updateCount()).toBe(1);
  await node.onceParked();
  expect(await history()).toEqual(["parked", "started"]);
});

test("a job whose source changes while the job parks is woken again and then keeps its slot", async () => {
  const node = await openParked();
  const { world } = node;
  await world.time.run(world.time.nowMs + 60_000);
  // Writes a document after the run has requested its last page of changes.
  node.before.set("PUT /a/_local/ID", () =>
    node.kv.transact(async (tx) =>
      (await node.databases.open(tx, "a")).write(tx, { ...LATE, attachments: [] }, ADMIN),
    ),
  );
  const beginMs = world.time.nowMs;
  await node.put("a", "second", {});
  await node.onceParked();
  expect(world.time.nowMs - beginMs).toBeLessThan(1000);
  await node.onceParked();
  expect(world.time.nowMs - beginMs).toBeGreaterThan(10_000);
  expect(await node.has("b", "late")).toBe(true);
});

test("a job whose source changes every few seconds keeps its slot until the changes end", async () => {
  const node = await openParked();
  const { world } = node;
  await world.time.run(world.time.nowMs + 60_000);
  const countBefore = node.wakeCount();
  for (let number = 0; number < 20; number++) {
    await node.put("a", `doc-${number}`, {});
    await world.time.run(world.time.nowMs + 2000);
  }
  expect(await node.has("b", "doc-19")).toBe(true);
  expect(node.wakeCount() - countBefore).toBe(2);
  await node.onceParked();
});

test("a run that has created the target does not request checkpoints of older versions from the target", async () => {
  const node = await openParked();
  const { world } = node;
  const body = { source: `${AT_SERVER}/a`, target: `${AT_SERVER}/c`, continuous: true };
  const asked = parseReplication({ ...body, create_target: true });
  node.asked.splice(0);
  await world.until(node.replicator.start(asked, JOE));
  await node.onceParked();
  expect(count(node.asked, "PUT /c/")).toBe(1);
  expect(count(node.asked, "GET /c/_local/ID")).toBe(1);
});

test("a parked job with failed documents is due immediately if a retry was requested, and otherwise at the scheduled retry", () => {
  const list = { isEmpty: false, retrySec: 600 };
  expect(decideParked(9000, { ...list, isAsked: true }, 100)).toBe(100);
  expect(decideParked(9000, { ...list, isAsked: false }, 100)).toBe(700);
});

test.each(["a", "b"])(
  "a woken job detects that database %s was deleted and re-created, and copies everything again",
  async (name) => {
    const node = await openParked();
    await node.remake(name);
    const asked = await node.wake("second");
    expect(count(asked, "GET /b/")).toBe(1);
    expect(await node.has("b", "first")).toBe(true);
    expect(await node.has("b", "second")).toBe(true);
    const entry = await node.world.until(node.replicator.find(node.id));
    expect(entry?.data.history.map(({ type }) => type)).not.toContain("crashed");
  },
);

test.each([
  ["a", "POST /a/_bulk_get"],
  ["b", "POST /b/_bulk_docs"],
  ["b", "GET /b/_local/ID"],
  ["a", "POST /a/_local/ID/_continue"],
  ["b", "POST /b/_local/ID/_continue"],
])(
  "a woken job detects that database %s was re-created before the request %s, and copies everything again",
  async (name, request) => {
    const node = await openParked(request.endsWith("_continue") ? TANDEM : COUCHDB);
    node.before.set(request, async () => {
      await node.kv.transact((tx) => node.databases.remove(tx, name));
      await node.kv.transact((tx) => node.databases.create(tx, name));
      if (name === "a") {
        await node.kv.transact(async (tx) =>
          (await node.databases.open(tx, "a")).write(tx, { ...LATE, attachments: [] }, ADMIN),
        );
      }
    });
    const asked = await node.wake("second");
    expect(count(asked, "GET /b/")).toBe(1);
    expect(node.names).toContain("replication.place-lost");
    for (const id of name === "a" ? ["late"] : ["first", "second"]) {
      expect(await node.has("b", id)).toBe(true);
    }
    const entry = await node.world.until(node.replicator.find(node.id));
    expect(entry?.data.history.map(({ type }) => type)).not.toContain("crashed");
  },
);

test.each([
  [COUCHDB, "POST /b/_bulk_docs"],
  [COUCHDB, "GET /b/"],
  [TANDEM, "POST /b/_bulk_docs"],
  [TANDEM, "POST /b/_local/ID/_continue"],
])(
  "a woken job detects on a server %s that database b was re-created before the request %s, even if the source was empty when the job parked",
  async (serverName, request) => {
    const node = await openParked(serverName, { isEmpty: true });
    node.before.set(request, async () => {
      await node.kv.transact((tx) => node.databases.remove(tx, "b"));
      await node.kv.transact((tx) => node.databases.create(tx, "b"));
    });
    await node.wake("first");
    expect(node.names).toContain("replication.place-lost");
    expect(await node.has("b", "first")).toBe(true);
    const entry = await node.world.until(node.replicator.find(node.id));
    expect(entry?.data.history.map(({ type }) => type)).not.toContain("crashed");
  },
);

test.each([COUCHDB, TANDEM])(
  "a target that is restored to an earlier state receives the missing documents again (%s)",
  async (serverName) => {
    const node = await openParked(serverName);
    const { world, kv, databases } = node;
    const locals = () =>
      world.until(kv.read(async (tx) => (await databases.open(tx, "b")).local.page(tx)));
    const before = await locals();
    await node.wake("second");
    // Restores an earlier backup of the target, which lacks the second document and has the earlier
    // checkpoint.
    await node.remake("b");
    await world.until(
      kv.transact(async (tx) => {
        const database = await databases.open(tx, "b");
        for (const { id, body } of before.entries)
          database.local.write(tx, { id, parent: undefined, body });
      }),
    );
    await node.wake("third");
    expect(await node.has("b", "second")).toBe(true);
    expect(await node.has("b", "third")).toBe(true);
  },
);

test("a job that starts on schedule or manually reads the information and checkpoints of both sides", async () => {
  const auditIntervalSec = 600;
  const node = await openParked(COUCHDB, { auditIntervalSec });
  const { world, replicator } = node;
  node.asked.splice(0);
  await world.until(replicator.commands.retry(node.id, { userName: "joe" }));
  await world.time.run(world.time.nowMs + 60_000);
  expect(count(node.asked, "GET /b/")).toBe(1);
  // The run knows its expected start sequence from the previous run, so it requests changes first.
  expect(node.asked.slice(0, 5)).toEqual([
    "GET /a/_changes",
    "GET /a/",
    "GET /a/_local/ID",
    "GET /b/",
    "GET /b/_local/ID",
  ]);
  node.asked.splice(0);
  await world.time.run(world.time.nowMs + 1.25 * auditIntervalSec * 1000);
  expect(count(node.asked, "GET /b/")).toBeGreaterThanOrEqual(1);
});

/** Options that make a job copy one document at a time and write a checkpoint every second. */
const OPTIONS = {
  worker_processes: 1,
  worker_processes_max: 1,
  worker_batch_size: 1,
  checkpoint_interval: 1000,
  retries_per_request: 0,
};
const fails = async (): Promise<never> => {
  throw new RequestFailedError({ method: "PUT", url: "http://x/", cause: "ECONNRESET" });
};

test("a target that is re-created while its job is parked receives everything, even if writing the source's checkpoint fails in the meantime", async () => {
  const node = await openParked(TANDEM, { options: OPTIONS });
  const { world } = node;
  for (const name of ["second", "third"]) await node.wake(name);
  await node.remake("b");
  let writes = 0;
  const slow = async (): Promise<void> => {
    node.before.set("POST /b/_bulk_docs", slow);
    if (writes++ > 1) await world.time.sleep(3000);
  };
  node.before.set("POST /b/_bulk_docs", slow);
  node.before.set("PUT /a/_local/ID", fails);
  await node.wake("fourth");
  for (const id of ["first", "second", "third", "fourth"]) {
    expect([id, await node.has("b", id)]).toEqual([id, true]);
  }
});

test.each([COUCHDB, TANDEM])(
  "a target that is restored to an earlier checkpoint of the same run receives the missing documents again (%s)",
  async (serverName) => {
    const node = await openParked(serverName, { options: OPTIONS });
    const { world, kv, databases } = node;
    await world.time.run(world.time.nowMs + 60_000);
    const locals = () => kv.read(async (tx) => (await databases.open(tx, "b")).local.page(tx));
    let backup: Awaited<ReturnType<typeof locals>> | undefined;
    // The run writes one checkpoint after the second document and another one after the third.
    node.before.set("POST /b/_bulk_docs", async () => {
      node.before.set("POST /b/_bulk_docs", async () => {
        await world.time.sleep(5000);
        backup = await locals();
      });
    });
    await node.putTogether("a", ["second", "third"]);
    await node.onceParked();
    expect(await node.has("b", "third")).toBe(true);
    // Restores the target from a backup. The backup lacks the third document, and has the previous
    // checkpoint of the same session.
    await node.remake("b");
    await world.until(
      kv.transact(async (tx) => {
        const database = await databases.open(tx, "b");
        for (const { id, body } of backup?.entries ?? [])
          database.local.write(tx, { id, parent: undefined, body });
      }),
    );
    await node.wake("fourth");
    expect(await node.has("b", "fourth")).toBe(true);
    expect(await node.has("b", "third")).toBe(true);
  },
);

test("a run that starts again and reads all changes has only one entry in the history", async () => {
  const node = await openParked(COUCHDB, { options: OPTIONS });
  const { world } = node;
  await world.time.run(world.time.nowMs + 60_000);
  let writes = 0;
  const slow = async (): Promise<void> => {
    node.before.set("POST /b/_bulk_docs", slow);
    // The first checkpoint is written before the second write. The server refuses the second write
    // once.
    if (++writes === 2) {
      await world.time.sleep(5000);
      node.refuse("POST /b/_bulk_docs");
    } else node.serveAgain("POST /b/_bulk_docs");
  };
  node.before.set("POST /b/_bulk_docs", slow);
  await node.putTogether("a", ["second", "third"]);
  await node.onceParked();
  expect(await node.has("b", "third")).toBe(true);
  expect(node.names).toContain("replication.place-lost");
  const log = await node.log("a");
  const sessions = log.history.map(({ session_id }) => session_id);
  expect(sessions).toHaveLength(new Set(sessions).size);
});

test.each(["0", "known"])(
  "a target that is re-created during a run receives everything in the next run (start times %s)",
  async (start) => {
    const hidesStartTimes = start === "0";
    const node = await openParked(COUCHDB, { options: OPTIONS, hidesStartTimes });
    const { world } = node;
    await node.createDatabase("c");
    for (const id of ["second", "third", "fourth"]) await node.put("a", id, {});
    let writes = 0;
    const slow = async (): Promise<void> => {
      node.before.set("POST /c/_bulk_docs", slow);
      writes++;
      if (writes > 1 && writes < 5) await world.time.sleep(3000);
      if (writes === 4) {
        await node.kv.transact((tx) => node.databases.remove(tx, "c"));
        await node.kv.transact((tx) => node.databases.create(tx, "c"));
      }
    };
    node.before.set("POST /c/_bulk_docs", slow);
    const body = { source: `${AT_SERVER}/a`, target: `${AT_SERVER}/c`, ...OPTIONS };
    for (let run = 0; run < 2; run++) {
      await world.until(node.replicator.start(parseReplication(body), JOE));
      await world.time.run(world.time.nowMs + 120_000);
    }
    for (const id of ["first", "second", "third", "fourth"]) {
      expect([id, await node.has("c", id)]).toEqual([id, true]);
    }
  },
);
