/**
 * Three nodes of one store are replaced one after the other by a newer program, and back, while
 * jobs run. Then the newer format is enabled, and the older program is refused.
 */
import { once } from "node:events";
import { availableParallelism, loadavg } from "node:os";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildOlderProgram } from "../../support/older-program.ts";
import { onceAnswered, Processes, type TandemProcess } from "../../support/open-process.ts";
import { onSharedStores } from "../../support/shared-stores.ts";

const JOB_COUNT = Number(process.env.TANDEM_JOBS ?? 300);
const NODE_COUNT = 3;
const PAUSE_SEC_MAX = 10;
/** Maximum runnable threads per core. Under more load, pauses depend on other programs. */
const LOAD_MAX = 2;

const names = Array.from({ length: JOB_COUNT }, (_, number) => `user-${number}`);
/** Two nodes have room for all jobs. Jobs must run instead of being parked. */
const ini = `[replicator]\nmax_jobs = ${Math.ceil(JOB_COUNT / 2)}\npark_after_sec = 0\n`;

interface Entry {
  readonly type: string;
  readonly timestamp: string;
}

interface JobView {
  readonly id: string;
  readonly history: readonly Entry[];
}

interface DocumentView {
  readonly id: string;
  readonly state: string;
  readonly error_count: number;
  readonly info: {
    readonly docs_read: number;
    readonly docs_written: number;
    readonly checkpointed_source_seq: string;
  };
}

onSharedStores((openStore) => {
  const processes = new Processes();
  const nodeOptions = openStore(processes);
  let older: string;
  let nodes: TandemProcess[] = [];
  let round = 0;
  const checkpoints = new Map<string, number>();

  beforeAll(async () => {
    older = buildOlderProgram(processes.directory());
  });
  afterAll(() => processes.close());

  const openNode = (program?: string): Promise<TandemProcess> =>
    processes.open({ ...nodeOptions, ini, ...(program === undefined ? {} : { program }) });

  function ask(method: string, path: string, body?: unknown) {
    return (nodes[0] as TandemProcess).call(method, path, body);
  }

  /**
   * Returns the jobs once `passes` accepts all of them. Waits for several events between two
   * requests, because a response about all jobs is expensive.
   */
  async function allOnce(passes: (job: DocumentView) => boolean): Promise<readonly DocumentView[]> {
    for (;;) {
      const countOf = () => nodes.reduce((sum, { events }) => sum + events.count, 0);
      const before = countOf();
      const { docs } = (await ask("GET", `/_scheduler/docs?limit=${JOB_COUNT}`)).body;
      const leftCount = JOB_COUNT - docs.filter(passes).length;
      if (leftCount === 0) return docs;
      while (countOf() < before + Math.ceil(leftCount / 10)) {
        await Promise.any(nodes.map(({ events }) => events.next(events.count)));
      }
    }
  }

  /**
   * Waits until each job has copied a document per round, and checks that no checkpoint moved back.
   */
  async function allCopied(): Promise<void> {
    const found = await allOnce(({ state, info }) => {
      return state === "running" && info.docs_written > round;
    });
    for (const { id, error_count, info } of found) {
      expect(error_count).toBe(0);
      expect([info.docs_read, info.docs_written]).toEqual([round + 1, round + 1]);
      const checkpoint = Number.parseInt(info.checkpointed_source_seq, 10);
      expect(checkpoint).toBeGreaterThanOrEqual(checkpoints.get(id) ?? 0);
      checkpoints.set(id, checkpoint);
    }
  }

  /** Replaces each node, oldest first. Each job copies a document in each round. */
  async function replaceAll(program?: string): Promise<void> {
    for (let count = 0; count < NODE_COUNT; count++) {
      const leaving = nodes.pop() as TandemProcess;
      await leaving.stop();
      round++;
      await ask("PUT", `/source/round-${round}`, {});
      nodes.unshift(await openNode(program));
      await allCopied();
    }
  }

  /** Checks by the timestamps in the jobs' histories that pauses are short. */
  async function expectShortPauses(): Promise<void> {
    const { body } = await ask("GET", `/_scheduler/jobs?limit=${JOB_COUNT}`);
    const pauses = (body.jobs as readonly JobView[]).flatMap(({ history }) => {
      expect(history.map(({ type }) => type)).not.toContain("crashed");
      return pausesSec(history);
    });
    // Jobs were stopped and continued, so the replacements had an effect.
    expect(pauses.length).toBeGreaterThan(JOB_COUNT / 2);
    const [load = 0] = loadavg();
    const isBusy = load / availableParallelism() > LOAD_MAX;
    expect(Math.max(...pauses)).toBeLessThan(isBusy ? Number.POSITIVE_INFINITY : PAUSE_SEC_MAX);
  }

  async function conflictsOf(name: string) {
    return (await ask("GET", `/_tandem/databases/${name}/conflicts`)).body;
  }

  async function addConflict(id: string): Promise<void> {
    const docs = ["a", "b"].map((hash) => ({ _id: id, _rev: `1-${hash.repeat(32)}` }));
    expect((await ask("POST", "/kept/_bulk_docs", { docs, new_edits: false })).status).toBe(201);
  }

  test("nodes are replaced by a newer program and back while jobs continue", async () => {
    nodes = await Promise.all(Array.from({ length: NODE_COUNT }, () => openNode(older)));
    await ask("PUT", "/source");
    await ask("PUT", "/source/round-0", {});
    const docs = names.map((name) => ({
      ...{ _id: name, source: "source", target: name },
      ...{ create_target: true, continuous: true },
    }));
    await ask("POST", "/_replicator/_bulk_docs", { docs });
    await allCopied();

    await replaceAll();
    const { body: newer } = await ask("GET", "/_tandem/upgrade");
    expect(newer).toMatchObject({ format: 2, can_enable: 3 });
    await replaceAll(older);
    await expectShortPauses();
  }, 900_000);

  test("the newer format cannot be enabled while an older node runs", async () => {
    await ask("PUT", "/kept");
    await addConflict("older");
    await (nodes.pop() as TandemProcess).stop();
    nodes.unshift(await openNode());
    await addConflict("newer");
    const { body } = await onceAnswered(
      nodes,
      () => ask("GET", "/_tandem/upgrade"),
      (answer) => answer.body.nodes.length === NODE_COUNT,
    );
    expect(body).toMatchObject({ format: 2, can_enable: null });
    const supported = body.nodes.map(({ formats }: { formats: unknown }) => formats);
    expect(supported).toEqual(expect.arrayContaining([null, { min: 2, max: 3 }]));
    const refused = await ask("POST", "/_tandem/upgrade/_enable");
    expect([refused.status, refused.body.error]).toEqual([409, "conflict"]);
    expect(await conflictsOf("kept")).toMatchObject({ total_rows: 0, complete: false });
  }, 300_000);

  test("an enabled format is used by all nodes, and refused by the older program", async () => {
    for (const node of nodes.slice(1)) await node.stop();
    nodes = [nodes[0] as TandemProcess, ...(await Promise.all([openNode(), openNode()]))];
    const { status, body } = await ask("POST", "/_tandem/upgrade/_enable");
    expect([status, body.format]).toEqual([200, 3]);
    await ask("POST", "/kept/_compact");
    const found = await onceAnswered(
      nodes,
      () => conflictsOf("kept"),
      ({ complete }) => complete,
    );
    expect(found.conflicts.map(({ id }: { id: string }) => id)).toEqual(["newer", "older"]);

    const tooOld = processes.start({ ...nodeOptions, ini, program: older });
    const errors = text(tooOld.stderr as NodeJS.ReadableStream);
    const [code] = await once(tooOld, "exit");
    expect(code).toBe(2);
    expect(await errors).toContain("version 3, but this program supports version 2");
  }, 300_000);
});

/** The pauses of a job: from a stop to the next start. The history is newest first. */
function pausesSec(history: readonly Entry[]): readonly number[] {
  const pauses: number[] = [];
  let stopped: string | undefined;
  for (const { type, timestamp } of history.toReversed()) {
    if (type === "stopped") stopped = timestamp;
    if (type !== "started" || stopped === undefined) continue;
    pauses.push((Date.parse(timestamp) - Date.parse(stopped)) / 1000);
    stopped = undefined;
  }
  return pauses;
}
