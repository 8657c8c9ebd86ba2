/**
 * Resolves the conflict of a document by the policy of its database: deletes the losing leaves, and
 * logs the resolution. If the policy's winner is not CouchDB's winner, the policy's winner also
 * gets a new revision with the same content. Two servers that know different leaves can decide
 * differently. Even then they never delete all leaves: neither server deletes the revision that the
 * other adds.
 */
import {
  errorCode,
  md5HexOf,
  outlineJson,
  parseJson,
  type Runtime,
  Utf8Text,
  utf8Encode,
  Yielder,
} from "../base/index.ts";
import {
  type Database,
  type DatabaseRegistry,
  type Document,
  type DocumentEdit,
  type Revision,
  SandboxError,
  shareOf,
  type WriteContext,
  type WriteOutcome,
} from "../databases/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction } from "../kv/index.ts";
import { ProtocolError, parseWireDocument } from "../protocol/index.ts";
import {
  type ConflictPolicy,
  type RankedLeaf,
  type WriteTime,
  winningLeaf,
  writeTimeOf,
} from "./conflict-policy.ts";
import type { DesignFunctions } from "./design-functions.ts";
import { fieldsOfDocument } from "./document-fields.ts";
import { transactValidated } from "./document-validation.ts";
import { documentArgument, sandboxRun } from "./sandbox-run.ts";

/** Maximum number of leaves resolved in one step. The next step resolves the others. */
const LEAVES_MAX = 20;
/** Total length of bodies at which one step stops reading more leaves. */
const BODY_BYTES = 4_000_000;
/** Time after which an unresolved conflict is tried again, even if it has not changed. */
const RETRY_MS = 3_600_000;
/** Time for which the bodies of removed leaves are kept for an undo. */
export const UNDO_MS = 30 * 24 * 3_600_000;
const REASON_LENGTH_MAX = 1_000;

const EMPTY = Utf8Text.of("{}");
export const RESOLVER: WriteContext = { userName: null, roles: ["_admin"], isAdmin: true };

export interface ConflictParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly functions: DesignFunctions;
}

/**
 * `gone`: nothing to do, or the document or policy has changed meanwhile. `left`: unresolved,
 * because the policy has no winner; the reason is stored.
 */
export type ConflictOutcome = "resolved" | "left" | "gone";

/** A conflict, as it was read for a decision. */
interface ReadConflict {
  readonly policyText: string;
  readonly policy: ConflictPolicy;
  readonly leavesDigest: string;
  /** Leaves that are not deleted, winner first. */
  readonly leaves: readonly Document[];
  /** The revision that began the conflict, if known. The policy `remote` selects it. */
  readonly remote: Revision | undefined;
  /** Whether the policy has already left this conflict unresolved. */
  readonly isLeft: boolean;
}

interface Decision {
  /** Index of the winner in `leaves`. */
  readonly kept: number;
  /** Content of the new revision that follows the winner, if a function returned a new document. */
  readonly body?: Utf8Text;
}

/** Decides which leaf wins; returns its index. Tests replace it. */
export type Decide = (policy: ConflictPolicy, leaves: readonly RankedLeaf[]) => number;

export class ConflictResolution {
  readonly #parts: ConflictParts;
  readonly #decide: Decide;

  constructor(
    parts: ConflictParts,
    decide: Decide = (policy, leaves) =>
      policy.resolve === "function" ? 0 : winningLeaf(policy, leaves),
  ) {
    this.#parts = parts;
    this.#decide = decide;
  }

  /**
   * Resolves the conflict of a document, up to `LEAVES_MAX` leaves at a time. Throws
   * STORE_DATABASE_NOT_FOUND.
   */
  async resolve(name: string, id: string, signal?: AbortSignal): Promise<ConflictOutcome> {
    const { runtime, kv } = this.#parts;
    const conflict = await kv.read((tx) => this.#read(tx, name, id), { signal });
    if (conflict === undefined) return "gone";
    if (conflict.isLeft) return "left";
    try {
      const decision = await this.#decision(name, id, conflict, signal);
      const removedCount = await this.#write(name, id, { conflict, decision, signal });
      if (removedCount === undefined) return "gone";
      const { resolve } = conflict.policy;
      const fields = { database: name, documentId: id, resolve, removedCount };
      runtime.trace.event("databases.conflict-resolved", fields);
      return "resolved";
    } catch (error) {
      const reason = reasonOf(error)?.slice(0, REASON_LENGTH_MAX);
      if (reason === undefined) throw error;
      await this.#leave(name, id, conflict, reason);
      runtime.trace.event("databases.conflict-left", { database: name, documentId: id, reason });
      return "left";
    }
  }

  async #read(tx: ReadTransaction, name: string, id: string): Promise<ReadConflict | undefined> {
    const { runtime, databases } = this.#parts;
    const database = await databases.open(tx, name);
    const stored = await database.resolutions.policy(tx);
    const revisions = await liveLeaves(tx, database, id);
    if (stored === undefined || revisions.length < 2) return undefined;
    const leavesDigest = md5HexOf(runtime.digests, [utf8Encode(revisions.join())]);
    const [unresolved] = await database.resolutions.unresolved(tx, [id]);
    const isLeft =
      unresolved?.leavesDigest === leavesDigest &&
      Math.abs(runtime.clock.nowMs() - unresolved.timeMs) < RETRY_MS;
    const leaves: Document[] = [];
    let byteCount = 0;
    for (const revision of isLeft ? [] : revisions) {
      if (leaves.length >= 2 && byteCount > BODY_BYTES) break;
      const [leaf] = await database.documents.readRevision(tx, id, revision);
      if (leaf === undefined) return undefined;
      leaves.push(leaf);
      byteCount += leaf.body.length;
    }
    const remote = (await database.conflicts.find(tx, id))?.revision;
    const policy = JSON.parse(stored.text) as ConflictPolicy;
    return { policyText: stored.text, policy, leavesDigest, leaves, remote, isLeft };
  }

  async #decision(
    name: string,
    id: string,
    { policy, leaves, remote }: ReadConflict,
    signal: AbortSignal | undefined,
  ): Promise<Decision> {
    if (id.startsWith("_design/"))
      throw new LeftError("conflicts of design documents must be resolved by hand");
    if (policy.resolve === "function") {
      return this.#askFunction(name, policy.function, leaves, signal);
    }
    const ranked: RankedLeaf[] = [];
    for (const leaf of leaves) {
      const written =
        policy.resolve === "last_write" ? await this.#written(leaf, policy.field) : undefined;
      ranked.push({ revision: leaf.revision, isRemote: leaf.revision === remote, written });
    }
    return { kept: this.#decide(policy, ranked) };
  }

  async #written(leaf: Document, field: string): Promise<WriteTime | undefined> {
    const fields = await fieldsOfDocument(leaf, {}, new Yielder(this.#parts.runtime.clock));
    const value = await fields.at(field.split("."));
    if (value?.kind === "number") return writeTimeOf(Number(value.text));
    return writeTimeOf(value?.string);
  }

  async #askFunction(
    name: string,
    source: string,
    leaves: readonly Document[],
    signal: AbortSignal | undefined,
  ): Promise<Decision> {
    const run = sandboxRun(leaves.map((leaf) => documentArgument(leaf)));
    const [result] = await callFunction(this.#parts, { name, source, runs: [run], signal });
    if (result === null || result === undefined) throw new LeftError("the function returned null");
    if (typeof result === "number" && leaves[result] !== undefined) return { kept: result };
    const { body, deleted } = parseWireDocument(validJson(String(result)));
    if (deleted) throw new LeftError("the function returned a deleted document");
    return { kept: 0, body };
  }

  /**
   * Writes the decision. Returns the number of removed leaves, or `undefined` if the document or
   * the policy has changed.
   */
  #write(
    name: string,
    id: string,
    {
      conflict: { policyText, policy, leaves },
      decision: { kept, body },
      signal,
    }: {
      readonly conflict: ReadConflict;
      readonly decision: Decision;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<number | undefined> {
    const { runtime, kv, databases, functions } = this.#parts;
    const options = { signal, whenUnknown: "retry" } as const;
    const winner = leaves[kept] as Document;
    const losers = leaves.filter((leaf) => leaf !== winner);
    return transactValidated(kv, functions, options, async (tx, validation) => {
      const database = await databases.open(tx, name);
      const stored = await database.resolutions.policy(tx);
      const revisions = await liveLeaves(tx, database, id);
      const isSame = leaves.every(({ revision }, index) => revisions[index] === revision);
      if (stored?.text !== policyText || !isSame) return undefined;
      const keepUntilMs = runtime.clock.nowMs() + UNDO_MS;
      const context = { ...RESOLVER, validation };
      let result = winner.revision;
      if (body !== undefined || kept > 0) {
        const edit = followingEdit(winner, body ?? winner.body);
        const ofWinner = body === undefined ? context : { ...context, keepUntilMs };
        [result] = (await writeAll(tx, database, [edit], ofWinner)) as [Revision];
      }
      const edits = losers.map((leaf) => deletionOf(leaf));
      const deletions = await writeAll(tx, database, edits, { ...context, keepUntilMs });
      const removed = losers.map(({ revision }, index) => {
        return { revision, deletion: deletions[index] as Revision };
      });
      const { resolve } = policy;
      await database.resolutions.append(tx, {
        id,
        resolve,
        kept: winner.revision,
        result,
        removed,
      });
      return removed.length;
    });
  }

  async #leave(
    name: string,
    id: string,
    { policyText, leavesDigest }: ReadConflict,
    reason: string,
  ): Promise<void> {
    const { kv, databases } = this.#parts;
    await kv.transact(
      async (tx) => {
        const database = await databases.open(tx, name);
        const isCurrent = (await database.resolutions.policy(tx))?.text === policyText;
        // A document without a conflict gets no row, because nothing would ever remove this row.
        if (!isCurrent || (await database.conflicts.find(tx, id)) === undefined) return;
        database.resolutions.setUnresolved(tx, id, { leavesDigest, reason });
      },
      { whenUnknown: "retry" },
    );
  }
}

/**
 * Calls the function of a policy. With no runs, only compiles the function. Throws a SandboxError.
 */
export async function callFunction(
  { runtime, functions }: Pick<ConflictParts, "runtime" | "functions">,
  {
    name,
    source,
    runs,
    signal,
  }: {
    readonly name: string;
    readonly source: string;
    readonly runs: readonly ReturnType<typeof sandboxRun>[];
    readonly signal?: AbortSignal | undefined;
  },
): Promise<(number | string | null)[]> {
  const code = utf8Encode(JSON.stringify({ resolve: source }));
  return functions.sandbox.call({
    codeId: `resolve ${md5HexOf(runtime.digests, [code])}`,
    code: [code],
    kind: "resolve",
    path: ["resolve"],
    runs,
    shared: "[]",
    timeoutMs: functions.timeoutMs,
    share: shareOf(name, undefined),
    signal,
  });
}

/**
 * Checks the text that a policy's function returned, because the function might have tampered with
 * it. Rejects text that CouchDB does not accept, as requests do: the document could not be
 * replicated to CouchDB.
 */
function validJson(text: string): string {
  try {
    outlineJson(text, { depthMax: 0, isPortable: true });
    parseJson(text);
    return text;
  } catch (error) {
    const reason = `the function returned no valid document: ${(error as Error).message}`;
    throw new LeftError(reason, { cause: error });
  }
}

/** Returns the first leaves that are not deleted, winner first. */
async function liveLeaves(
  tx: ReadTransaction,
  database: Database,
  id: string,
): Promise<Revision[]> {
  const leaves = await database.documents.leaves(tx, id);
  const live = leaves.filter(({ deleted }) => !deleted).slice(0, LEAVES_MAX);
  return live.map(({ revision }) => revision);
}

/** Builds an edit that follows a revision and keeps its attachments. */
function followingEdit({ id, revision, attachments }: Document, body: Utf8Text): DocumentEdit {
  const stubs = attachments.map(({ name }) => ({ kind: "stub", name }) as const);
  const edit = { id, body, deleted: false, attachments: stubs };
  return { ...edit, mode: "interactive", parent: revision };
}

function deletionOf({ id, revision }: Document): DocumentEdit {
  const edit = { id, body: EMPTY, deleted: true, attachments: [] };
  return { ...edit, mode: "interactive", parent: revision };
}

/** Writes the edits. Throws a LeftError if one of them is refused. */
export async function writeAll(
  tx: Transaction,
  database: Database,
  edits: readonly DocumentEdit[],
  context: WriteContext,
): Promise<Revision[]> {
  const outcomes = await database.writeMany(tx, edits, context);
  return outcomes.map((outcome: WriteOutcome) => {
    if (outcome.kind === "written" || outcome.kind === "known") return outcome.revision;
    if (outcome.kind !== "rejected") throw new LeftError(`the write was refused: ${outcome.kind}`);
    throw new LeftError(`the write was refused: ${outcome.error}: ${outcome.reason}`);
  });
}

/** Thrown if a conflict has to stay unresolved. The message is the reason. */
export class LeftError extends Error {
  override readonly name = "LeftError";
}

/**
 * Returns the reason why a conflict stays unresolved, or `undefined` for an error that neither the
 * document nor the policy caused.
 */
export function reasonOf(error: unknown): string | undefined {
  if (error instanceof SandboxError) return `${error.error}: ${error.reason}`;
  if (error instanceof ProtocolError) return error.reason;
  if (error instanceof LeftError) return error.message;
  const known = ["KV_TOO_LARGE", "STORE_DOCUMENT_TOO_LARGE", "STORE_VALIDATION_UNSETTLED"];
  return known.includes(errorCode(error) ?? "") ? (error as Error).message : undefined;
}
