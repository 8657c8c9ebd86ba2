/**
 * Undoes resolutions of conflicts, latest first. First removes the policy, so that it does not
 * resolve the conflicts again. Then writes each removed leaf again, as a successor of its deletion,
 * and restores content that a function replaced.
 */
import { errorCode } from "../base/index.ts";
import type {
  Attachment,
  AttachmentEdit,
  Database,
  Document,
  DocumentEdit,
  Resolution,
  Revision,
} from "../databases/index.ts";
import type { Transaction } from "../kv/index.ts";
import { transactValidated } from "./document-validation.ts";
import { type ConflictParts, RESOLVER, reasonOf, writeAll } from "./resolve-conflict.ts";

/** Maximum number of resolutions that one call processes. */
const VISITED_MAX = 1_000;
const PAGE_ROWS = 100;

export interface UndoSelection {
  /** Ids of the documents whose resolutions are undone. Default: all. */
  readonly ids?: ReadonlySet<string> | undefined;
  /** Time of the earliest resolution to undo. */
  readonly sinceMs?: number | undefined;
  /** Only resolutions with lower numbers: `next` of the previous call. */
  readonly before?: number | undefined;
}

export interface Undone {
  resolutions: number;
  /** Number of revisions written. */
  revisions: number;
  /** Number of leaves that cannot be restored because their bodies are no longer stored. */
  lost: number;
  /**
   * Number of resolutions that stay in the log, because the document is deleted or the write was
   * refused.
   */
  kept: number;
  /** Value of `before` for the next call; undefined at the end. */
  next: number | undefined;
}

/** Undoes the selected resolutions of a database. Throws STORE_DATABASE_NOT_FOUND. */
export async function undoResolutions(
  parts: ConflictParts,
  name: string,
  { ids, sinceMs = 0, before }: UndoSelection,
  signal?: AbortSignal,
): Promise<Undone> {
  const { kv, databases } = parts;
  await kv.transact(
    async (tx) => (await databases.open(tx, name)).resolutions.setPolicy(tx, undefined),
    { signal, whenUnknown: "retry" },
  );
  const undone: Undone = { resolutions: 0, revisions: 0, lost: 0, kept: 0, next: undefined };
  const restored = new Map<Revision, Revision>();
  let visitedCount = 0;
  for (let place = before, isLast = false; !isLast; ) {
    const page = await kv.read(
      async (tx) =>
        (await databases.open(tx, name)).resolutions.page(tx, { before: place, limit: PAGE_ROWS }),
      { signal },
    );
    for (const resolution of page.entries) {
      if (resolution.timeMs < sinceMs || ids?.has(resolution.id) === false) continue;
      if (visitedCount++ === VISITED_MAX) return { ...undone, next: resolution.number + 1 };
      await undo(parts, name, { resolution, undone, restored }, signal);
    }
    place = page.entries.at(-1)?.number;
    isLast = page.stoppedBy === "exhausted" || place === undefined;
  }
  return undone;
}

async function undo(
  { kv, databases, functions }: ConflictParts,
  name: string,
  {
    resolution,
    undone,
    restored,
  }: {
    readonly resolution: Resolution;
    readonly undone: Undone;
    readonly restored: Map<Revision, Revision>;
  },
  signal: AbortSignal | undefined,
): Promise<void> {
  const options = { signal, whenUnknown: "retry" } as const;
  const { id, number } = resolution;
  try {
    const done = await transactValidated(kv, functions, options, async (tx, validation) => {
      const database = await databases.open(tx, name);
      const [current] = (await database.resolutions.page(tx, { before: number + 1, limit: 1 }))
        .entries;
      if (current?.number !== number || current.id !== id) return undefined;
      const plan = await undoPlan(tx, database, resolution, restored);
      if (plan === undefined) return "deleted";
      const edits = plan.writes.map(({ edit }) => edit);
      const revisions = await writeAll(tx, database, edits, { ...RESOLVER, validation });
      database.resolutions.forget(tx, number);
      return { ...plan, revisions };
    });
    if (done === "deleted") undone.kept++;
    else if (done !== undefined) {
      undone.resolutions++;
      undone.revisions += done.revisions.length;
      undone.lost += done.lost;
      for (const [index, { of }] of done.writes.entries()) {
        restored.set(of, done.revisions[index] as Revision);
      }
    }
  } catch (error) {
    const isGone = errorCode(error) === "STORE_ATTACHMENT_CONTENT_GONE";
    if (!isGone && reasonOf(error) === undefined) throw error;
    undone.kept++;
  }
}

interface UndoPlan {
  /** Edits, each restoring the content of the revision `of`. */
  readonly writes: readonly { readonly of: Revision; readonly edit: DocumentEdit }[];
  readonly lost: number;
}

/**
 * Returns the edits that undo a resolution, or `undefined` if the document is deleted. `restored`
 * maps revisions that were already restored to their new revisions.
 */
async function undoPlan(
  tx: Transaction,
  database: Database,
  { id, resolve, kept, result, removed }: Resolution,
  restored: ReadonlyMap<Revision, Revision>,
): Promise<UndoPlan | undefined> {
  const { documents } = database;
  const leaves = await documents.leaves(tx, id);
  if (leaves[0]?.deleted !== false) return undefined;
  const isDeleted = new Map(leaves.map(({ revision, deleted }) => [revision, deleted]));
  const writes: { of: Revision; edit: DocumentEdit }[] = [];
  let lost = 0;
  const restore = async (of: Revision, parent: Revision, present?: Document): Promise<void> => {
    const [old] = await documents.readRevision(tx, id, of, { superseded: true });
    if (old === undefined) lost++;
    else if (present?.body.text !== old.body.text) writes.push({ of, edit: editOf(old, parent) });
  };
  for (const { revision, deletion } of removed) {
    if (isDeleted.get(deletion) === true) await restore(revision, deletion);
  }
  const tip = restored.get(result) ?? result;
  if (resolve === "function" && result !== kept && isDeleted.get(tip) === false) {
    await restore(kept, tip, (await documents.readRevision(tx, id, tip))[0]);
  }
  return { writes, lost };
}

function editOf({ id, body, attachments }: Document, parent: Revision): DocumentEdit {
  const edit = { id, body, deleted: false, attachments: attachments.map(storedAttachment) };
  return { ...edit, mode: "interactive", parent };
}

/**
 * Returns the edit for an attachment of a former leaf. The attachment's content is kept together
 * with the leaf's body.
 */
function storedAttachment({ name, contentType, revisionPosition, ...content }: Attachment) {
  return { kind: "staged", name, contentType, revisionPosition, content } satisfies AttachmentEdit;
}
