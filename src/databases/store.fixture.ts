/** A store with one database, for tests. */
import { type Random, type Runtime, Utf8Text } from "../base/index.ts";
import { createSystemRuntime } from "../host/index.ts";
import {
  KeyValueStore,
  MemoryEngine,
  type MemoryFaults,
  type ReadTransaction,
  Remover,
  Subspace,
  type Transaction,
} from "../kv/index.ts";
import type { Database } from "./database.ts";
import { DatabaseRegistry } from "./database-registry.ts";
import type { DocumentEdit, Revision, WriteOutcome } from "./document.ts";
import type { DatabaseHook, WriteContext } from "./hooks.ts";

export const CONTEXT: WriteContext = { userName: null, roles: [], isAdmin: true };

export interface OpenStore {
  readonly kv: KeyValueStore;
  readonly registry: DatabaseRegistry;
  readonly runtime: Runtime;
  /** Opens the database and runs `body` in one transaction. */
  write<T>(body: (tx: Transaction, database: Database) => Promise<T>): Promise<T>;
  read<T>(body: (tx: ReadTransaction, database: Database) => Promise<T>): Promise<T>;
  /** Runs the queued removals. */
  removeGarbage(): Promise<void>;
  /** Writes edits in one transaction. */
  edit(...edits: DocumentEdit[]): Promise<WriteOutcome[]>;
}

export async function openStore({
  runtime = createSystemRuntime(),
  hooks = [],
  faults,
  keepOldBodiesMs = () => 0,
  isFormat3 = async () => true,
}: {
  readonly runtime?: Runtime;
  readonly faults?: MemoryFaults;
  readonly hooks?: readonly DatabaseHook[];
  readonly keepOldBodiesMs?: () => number;
  readonly isFormat3?: () => Promise<boolean>;
} = {}): Promise<OpenStore> {
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, faults }) });
  const root = Subspace.fromTuple([1]);
  const registry = new DatabaseRegistry({ runtime, root, hooks, keepOldBodiesMs, isFormat3 });
  const careful = { whenUnknown: "check" } as const;
  await kv.transact((tx) => registry.create(tx, "films"), careful);
  const write: OpenStore["write"] = (body) =>
    kv.transact(async (tx) => body(tx, await registry.open(tx, "films")), careful);
  const read: OpenStore["read"] = (body) =>
    kv.read(async (tx) => body(tx, await registry.open(tx, "films")));
  const edit: OpenStore["edit"] = (...edits) =>
    write((tx, database) => database.writeMany(tx, edits, CONTEXT));
  const remover = new Remover({ runtime, kv, node: "test" });
  const removeGarbage = () => remover.once(new AbortController().signal);
  return { kv, registry, runtime, write, read, edit, removeGarbage };
}

export function interactive(
  id: string,
  parent?: Revision,
  { body = "{}", deleted = false }: { readonly body?: string; readonly deleted?: boolean } = {},
): DocumentEdit {
  return { mode: "interactive", id, parent, body: Utf8Text.of(body), deleted, attachments: [] };
}

/**
 * Builds a replicated edit. `path` lists its revisions from the newest down: `3-c`, `2-b`, `1-a`.
 */
export function replicated(
  id: string,
  path: readonly Revision[],
  { body = "{}", deleted = false }: { readonly body?: string; readonly deleted?: boolean } = {},
): DocumentEdit {
  const start = Number.parseInt(path[0] as string, 10);
  const hashes = path.map((revision) => revision.slice(revision.indexOf("-") + 1));
  const revisions = { start, hashes };
  return { mode: "replicated", id, revisions, body: Utf8Text.of(body), deleted, attachments: [] };
}

/** Returns the revision of an edit that was written, or that existed already. */
export function revisionOf(outcome: WriteOutcome | undefined): Revision {
  if (outcome?.kind !== "written" && outcome?.kind !== "known") {
    throw new Error(`Not written: ${JSON.stringify(outcome)}`);
  }
  return outcome.revision;
}

/** Returns a deterministic generator (linear congruential; uses the high bits). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const ratio = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  const integer = (limit: number): number => Math.floor(ratio() * limit);
  return {
    ratio,
    integer,
    bytes: (byteCount) => Uint8Array.from({ length: byteCount }, () => integer(256)),
    fork: () => seededRandom(integer(2 ** 31)),
  };
}
