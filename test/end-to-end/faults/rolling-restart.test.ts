/**
 * A rolling restart of three nodes. No job repeats work or counts a crash, and each job is resumed.
 * `TANDEM_JOBS=300` sets a realistic size.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { onceAnswered, Processes, type TandemProcess } from "../../support/open-process.ts";
import { onSharedStores } from "../../support/shared-stores.ts";

const JOB_COUNT = Number(process.env.TANDEM_JOBS ?? 21);
/**
 * Maximum number of jobs per node. While one node restarts, the other nodes have room for its jobs.
 */
const JOBS_PER_NODE_MAX = Math.ceil(JOB_COUNT / 2);

const ini = `[replicator]\nmax_jobs = ${JOBS_PER_NODE_MAX}\n`;
const names = Array.from({ length: JOB_COUNT }, (_, number) => `user-${number}`);

type History = readonly { readonly type: string }[];

interface DocumentView {
  readonly state: string;
  readonly error_count: number;
  readonly info: { readonly docs_read: number };
}

onSharedStores((openStore) => {
  const processes = new Processes();
  const nodeOptions = openStore(processes);
  let sources: TandemProcess;
  let nodes: TandemProcess[];

  beforeAll(async () => {
    sources = await processes.open();
    nodes = [];
    for (let number = 0; number < 3; number++)
      nodes.push(await processes.open({ ...nodeOptions, ini }));
  });
  afterAll(() => processes.close());

  function inEach(work: (name: string) => Promise<unknown>): Promise<unknown> {
    return Promise.all(names.map(work));
  }

  /**
   * Sends a request to the first node of the list, which always runs: the test restarts the last
   * node, and puts the replacement first.
   */
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
  async function ask(method: string, path: string, body?: unknown): Promise<any> {
    const [node] = nodes as [TandemProcess];
    return (await node.call(method, path, body)).body;
  }

  async function jobs(): Promise<readonly DocumentView[]> {
    return (await ask("GET", "/_scheduler/docs")).docs;
  }

  function allHave(passes: (job: DocumentView) => boolean): Promise<readonly DocumentView[]> {
    return onceAnswered(nodes, jobs, (found) => found.length === JOB_COUNT && found.every(passes));
  }

  test(
    "while three nodes restart one after the other, running jobs continue without crashes or repeated work",
    async () => {
      await inEach((name) => sources.call("PUT", `/${name}`));
      await inEach((name) => sources.call("PUT", `/${name}/one`, {}));
      const docs = names.map((name) => ({
        _id: name,
        source: `${sources.url}/${name}`,
        target: name,
        create_target: true,
        continuous: true,
      }));
      await ask("POST", "/_replicator/_bulk_docs", { docs });
      await allHave(({ state, info }) => state === "running" && info.docs_read === 1);

      for (let round = 0; round < 3; round++) {
        const leaving = nodes.pop() as TandemProcess;
        expect(await leaving.stop()).toBe(0);
        await inEach((name) => sources.call("PUT", `/${name}/round-${round}`, {}));
        nodes.unshift(await processes.open({ ...nodeOptions, ini }));
        await allHave(({ state, info }) => state === "running" && info.docs_read === round + 2);
      }

      // Each document was read exactly once, so no job skipped or repeated changes.
      for (const { error_count, info } of await jobs()) {
        expect(error_count).toBe(0);
        expect(info.docs_read).toBe(4);
      }
      const shown: readonly { readonly history: History }[] = (
        await ask("GET", `/_scheduler/jobs?limit=${JOB_COUNT}`)
      ).jobs;
      for (const { history } of shown) {
        expect(history.map(({ type }) => type)).not.toContain("crashed");
      }
      // Some jobs were stopped and started again, so the restarts had an effect.
      expect(shown.some(({ history }) => wasTakenUpAgain(history))).toBe(true);
    },
    600_000 + JOB_COUNT * 2000,
  );
});

/** Whether the job was started after it was stopped. The history is newest first. */
function wasTakenUpAgain(history: History): boolean {
  const types = history.map(({ type }) => type);
  const stopped = types.indexOf("stopped");
  return stopped > 0 && types.slice(0, stopped).includes("started");
}
