/**
 * Nodes are killed repeatedly while they run jobs between two other servers. Every job continues,
 * and every document arrives. For a long test: `TANDEM_JOBS=2000 TANDEM_KILLS=15
 * TANDEM_KILL_PAUSE_SEC=20`.
 */
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { onceThere } from "../../support/changes-feed.ts";
import { compare } from "../../support/compare.ts";
import { onceAnswered, Processes, type TandemProcess } from "../../support/open-process.ts";
import { onSharedStores } from "../../support/shared-stores.ts";

const JOB_COUNT = Number(process.env.TANDEM_JOBS ?? 20);
const KILL_COUNT = Number(process.env.TANDEM_KILLS ?? 2);
const KILL_PAUSE_SEC = Number(process.env.TANDEM_KILL_PAUSE_SEC ?? 0);
/** Total rate of writes to all sources. It is constant, so that the machine is not overloaded. */
const WRITES_PER_SEC = 50;
const REQUESTS_AT_ONCE = 20;

// Two nodes have room for all jobs, so that a third node can die.
const ini = `[replicator]\nmax_jobs = ${Math.ceil(JOB_COUNT / 2)}\ncheckpoint_interval = 5000\n`;
const names = Array.from({ length: JOB_COUNT }, (_, number) => `user-${number}`);

onSharedStores((openStore) => {
  const processes = new Processes();
  const nodeOptions = openStore(processes);
  let sources: TandemProcess;
  let targets: TandemProcess;
  let nodes: TandemProcess[];

  beforeAll(async () => {
    [sources, targets] = await Promise.all([processes.open(), processes.open()]);
    nodes = [];
    for (let number = 0; number < 3; number++)
      nodes.push(await processes.open({ ...nodeOptions, ini }));
  });
  afterAll(() => processes.close());

  async function inEach(work: (name: string) => Promise<unknown>): Promise<void> {
    const left = [...names];
    const lane = async (): Promise<void> => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) await work(name);
    };
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, lane));
  }

  /**
   * Returns the number of jobs that each live worker holds, by process, and the number of running
   * replications. Workers also hold jobs of other types, such as the watch of a source.
   */
  async function held() {
    const [node] = nodes as [TandemProcess];
    const { workers } = (await node.call("GET", "/_tandem/workers")).body;
    const { body } = await node.call("GET", "/_tandem/jobs?state=running&limit=1");
    const counts = workers.map(({ pid, jobs }: { pid: string; jobs: number }) => [pid, jobs]);
    return {
      byProcess: Object.fromEntries(counts) as Readonly<Record<string, number>>,
      runningCount: body.total_rows as number,
    };
  }

  function allHeld(): Promise<unknown> {
    return onceAnswered(nodes, held, ({ byProcess, runningCount }) => {
      const heldCount = Object.values(byProcess).reduce((sum, count) => sum + count, 0);
      return runningCount === JOB_COUNT && heldCount >= JOB_COUNT;
    });
  }

  /**
   * Adds documents to each source until `over` is aborted. Returns the number of documents that
   * each source then has.
   */
  async function write(over: AbortSignal): Promise<number> {
    setMaxListeners(REQUESTS_AT_ONCE, over);
    const startedAtMs = performance.now();
    let count = 0;
    let round = 0;
    while (!over.aborted) {
      await inEach(async (name) => {
        const dueAtMs = startedAtMs + (count++ / WRITES_PER_SEC) * 1000;
        await sleep(dueAtMs - performance.now(), undefined, { signal: over }).catch(() => {});
        await sources.call("PUT", `/${name}/round-${round}`, { round });
      });
      round++;
    }
    return round;
  }

  test(
    "other nodes take over all jobs of nodes killed while they copy, and no document is missing",
    async () => {
      await inEach((name) => sources.call("PUT", `/${name}`));
      const docs = names.map((name) => ({
        _id: name,
        source: `${sources.url}/${name}`,
        target: `${targets.url}/${name}`,
        create_target: true,
        continuous: true,
      }));
      await nodes[0]?.call("POST", "/_replicator/_bulk_docs", { docs });
      await allHeld();

      const over = new AbortController();
      const written = write(over.signal);
      for (let kill = 0; kill < KILL_COUNT; kill++) {
        await sleep(KILL_PAUSE_SEC * 1000);
        const victim = nodes.pop() as TandemProcess;
        await victim.kill();
        await onceAnswered(nodes, held, ({ byProcess }) => !(`${victim.child.pid}` in byProcess));
        await allHeld();
        nodes.unshift(await processes.open({ ...nodeOptions, ini }));
      }
      over.abort(new Error("enough"));
      const documentCount = await written;

      await inEach((name) => onceThere(targets.url, name, ({ size }) => size === documentCount));
      for (const name of names) {
        const { differences } = await compare(`${sources.url}/${name}`, `${targets.url}/${name}`);
        expect(differences).toEqual([]);
      }
    },
    600_000 + JOB_COUNT * 2000 + KILL_COUNT * KILL_PAUSE_SEC * 1000,
  );
});
