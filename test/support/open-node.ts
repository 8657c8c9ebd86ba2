/**
 * A node without sockets: store, databases, queue, replicator and scheduler. Several nodes can
 * share a store.
 */

import { errorCode, type Runtime, Utf8Text } from "../../src/base/index.ts";
import type { WriteContext } from "../../src/databases/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import type { Fetch } from "../../src/http-client/index.ts";
import {
  KeyValueStore,
  MemoryEngine,
  type MemoryFaults,
  MemoryStorage,
} from "../../src/kv/index.ts";
import type { ReplicatorConfig } from "../../src/replicator/index.ts";
import { composeNode } from "./compose-node.ts";
import { patience } from "./runner/patience.ts";

export const ADMIN: WriteContext = { userName: null, roles: ["_admin"], isAdmin: true };

export async function openNode({
  storage = new MemoryStorage(),
  config = {},
  failuresMax,
  faults,
  runtimeOver = (system) => system,
  fetch,
}: {
  readonly storage?: MemoryStorage;
  readonly config?: Partial<ReplicatorConfig>;
  /** Maximum number of documents in a failure list. */
  readonly failuresMax?: number;
  /** Faults that are injected into the node's store. */
  readonly faults?: MemoryFaults;
  /** Wraps the machine's runtime. The node uses the result. */
  readonly runtimeOver?: (system: Runtime) => Runtime;
  readonly fetch?: Fetch;
} = {}) {
  const events: { name: string; fields: Readonly<Record<string, unknown>> }[] = [];
  const listeners = new Set<() => void>();
  const system = createSystemRuntime({
    event: (name, fields) => {
      patience.heard();
      events.push({ name, fields });
      for (const listener of listeners) listener();
    },
  });
  const runtime = runtimeOver(system);
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage, faults }) });
  const {
    endpoints,
    jobs,
    index,
    indexes,
    indexBuilds,
    databases,
    attachments,
    replicator,
    cleanUp,
    scheduler,
    ruleStore,
    failureLists,
    ...services
  } = composeNode({
    runtime,
    kv,
    config,
    ...(fetch === undefined ? {} : { fetch }),
    ...(failuresMax === undefined ? {} : { failuresMax }),
  });
  await replicator.prepare();
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  return {
    runtime,
    kv,
    jobs,
    databases,
    indexes,
    indexBuilds,
    attachments,
    endpoints,
    index,
    replicator,
    cleanUp,
    ruleStore,
    failureLists,
    remover: services.remover,
    events,
    /** Starts a node. If `removes` is set, the node also removes data in the background. */
    start({ removes = true } = {}): void {
      const { signal } = stopping;
      const { outages, removedDatabases, remover } = services;
      const halting = removedDatabases.run(signal).catch(() => {});
      const removing = removes ? remover.run(signal).catch(() => {}) : undefined;
      const members = [scheduler.run(signal), outages.run(signal), halting, removing];
      running = Promise.all(members).then(() => {});
    },
    async stop(): Promise<void> {
      stopping.abort(new Error("The test is over"));
      await running;
    },
    /** Resolves to the first past or future event with this name that `passes` accepts. */
    async event(
      name: string,
      passes: (fields: Readonly<Record<string, unknown>>) => boolean = () => true,
    ): Promise<Readonly<Record<string, unknown>>> {
      for (;;) {
        const found = events.find((event) => event.name === name && passes(event.fields));
        if (found !== undefined) return found.fields;
        const next = new Promise<void>((resolve) => {
          const listener = (): void => {
            listeners.delete(listener);
            resolve();
          };
          listeners.add(listener);
        });
        await patience.until(`the event ${name}`, next);
      }
    },
    async createDatabase(name: string): Promise<void> {
      await kv.transact((tx) => databases.create(tx, name));
    },
    /** Creates a document, or updates the winning revision of an existing one. */
    async put(database: string, id: string, body: string, deleted = false): Promise<void> {
      const outcome = await kv.transact(async (tx) => {
        const opened = await databases.open(tx, database);
        const parent = (await opened.documents.read(tx, id))?.revision;
        const edit = {
          mode: "interactive",
          id,
          parent,
          deleted,
          body: Utf8Text.of(body),
          attachments: [],
        } as const;
        return opened.write(tx, edit, ADMIN);
      });
      if (outcome.kind !== "written") throw new Error(JSON.stringify(outcome));
    },
    async read(database: string, id: string) {
      return kv.read(async (tx) => (await databases.open(tx, database)).documents.read(tx, id));
    },
    /** Returns all documents with their leaves. Tests use this to compare databases. */
    async content(database: string): Promise<Record<string, string[]>> {
      const page = await kv.read(async (tx) =>
        (await databases.open(tx, database)).changes.page(tx, { limit: 100_000 }),
      );
      const rows = page.entries.map(
        ({ id, leaves }) => [id, leaves.map(({ revision }) => revision)] as const,
      );
      return Object.fromEntries(rows.toSorted(([left], [right]) => (left < right ? -1 : 1)));
    },
    /**
     * Resolves once `passes` accepts the ids of the database's documents. The database need not
     * exist yet.
     */
    async onceContent(database: string, passes: (ids: readonly string[]) => boolean) {
      for (;;) {
        const { exists, changed } = await kv.transact(async (tx) => {
          const opened = await databases.open(tx, database).catch((error: unknown) => {
            if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
            throw error;
          });
          const changed = opened?.changes.watch(tx) ?? databases.updates.watch(tx);
          return { exists: opened !== undefined, changed };
        });
        if (exists && passes(Object.keys(await this.content(database)))) return changed.cancel();
        await patience.until(`documents of ${database} that pass`, changed.fired());
      }
    },
  };
}

export type Node = Awaited<ReturnType<typeof openNode>>;
