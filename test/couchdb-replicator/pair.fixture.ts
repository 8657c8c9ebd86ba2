/**
 * Two nodes. A proxy in front of each node counts and modifies requests. The first node replicates
 * from its database to the database of the second.
 */
import {
  type HttpProxy,
  openHttpProxy,
  type ProxiedRequest,
} from "../support/faults/http-proxy.ts";
import { type Answer, Processes, type TandemNode } from "../support/open-process.ts";

export interface Pair {
  /** Node that runs the replications and contains the source databases. */
  readonly here: TandemNode;
  readonly there: TandemNode;
  /** Proxy in front of `here`. */
  readonly source: HttpProxy;
  /** Proxy in front of `there`. */
  readonly target: HttpProxy;
  /**
   * Creates a database with these documents on the node `here`, and an empty database of the same
   * name on the node `there`.
   */
  fill(database: string, documents: readonly object[]): Promise<void>;
  /**
   * Returns a `_replicate` body that copies the database from `here` to `there` through both
   * proxies.
   */
  body(database: string, more?: object): object;
  replicate(database: string, more?: object): Promise<Answer>;
  /** Returns the ids of the documents in the target database, in order. */
  ids(database: string): Promise<string[]>;
  /** Returns the failure list of the database's replication, each entry as `id: status reason`. */
  failures(database: string): Promise<string[]>;
  /** Stops modifying requests, and clears the counters. */
  reset(): void;
  close(): Promise<void>;
}

export async function openPair(ini = ""): Promise<Pair> {
  const processes = new Processes();
  const [here, there] = await Promise.all([processes.openHere({ ini }), processes.openHere()]);
  const [source, target] = await Promise.all([openHttpProxy(here.url), openHttpProxy(there.url)]);
  const body = (database: string, more: object = {}): object => ({
    source: `${source.url}/${database}`,
    target: `${target.url}/${database}`,
    ...more,
  });
  return {
    here,
    there,
    source,
    target,
    async fill(database, documents) {
      await here.call("PUT", `/${database}`);
      await there.call("PUT", `/${database}`);
      await write(here, database, documents);
    },
    body,
    replicate: (database, more) => here.call("POST", "/_replicate", body(database, more)),
    async ids(database) {
      const { body: all } = await there.call("GET", `/${database}/_all_docs`);
      return all.rows.map(({ id }: { id: string }) => id);
    },
    async failures(database) {
      const { body: all } = await here.call("GET", "/_tandem/jobs?limit=1000");
      const isOurs = (job: { source: string }): boolean => job.source.endsWith(`/${database}/`);
      const { id } = all.jobs.find(isOurs);
      const path = `/_tandem/jobs/${encodeURIComponent(id)}/failures`;
      const { body: listed } = await here.call("GET", path);
      return listed.failures.map(
        (row: Record<string, unknown>) => `${row.id}: ${row.status} ${row.reason}`,
      );
    },
    reset() {
      for (const proxy of [source, target]) {
        proxy.intercept((request, forward) => forward(request));
        (proxy.requests as ProxiedRequest[]).length = 0;
      }
    },
    async close() {
      await source.close();
      await target.close();
      await processes.close();
    },
  };
}

/** Writes documents as new edits. Throws unless all writes succeed. */
export async function write(
  node: TandemNode,
  database: string,
  docs: readonly object[],
): Promise<void> {
  const { body } = await node.call("POST", `/${database}/_bulk_docs`, { docs });
  const refused = body.filter((row: { error?: string }) => row.error !== undefined);
  if (refused.length > 0) throw new Error(JSON.stringify(refused));
}

/**
 * Returns this many documents, named `doc-0`, `doc-1` and so on, each with the members of `more`.
 */
export function documents(count: number, more: object = {}): object[] {
  return Array.from({ length: count }, (_, number) => ({ _id: `doc-${number}`, ...more }));
}

export const ATTACHED = {
  _attachments: { note: { content_type: "text/plain", data: btoa("note") } },
};

/**
 * Returns the number of requests that match the method and the path. The path excludes the
 * database's name.
 */
export function count(proxy: HttpProxy, method: string, path: RegExp): number {
  return proxy.requests.filter((request) => {
    return request.method === method && path.test(request.path.replace(/^\/[^/]+\//, ""));
  }).length;
}

/** Waits until a replication document's job has one of these states, and returns the job. */
export async function documentJob(
  node: TandemNode,
  id: string,
  ...states: readonly string[]
): Promise<Answer["body"]> {
  const { body } = await node.onceAnswered(
    () => node.call("GET", `/_scheduler/docs/_replicator/${id}`),
    ({ body: job }) => states.includes(job.state),
  );
  return body;
}
