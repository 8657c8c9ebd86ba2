/** Resolves the attachments named in an edit to those of the new revision. */
import { assert, chunksOf, type Yielder } from "../../base/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { Attachment, AttachmentEdit, StagedContent } from "../document.ts";
import { checkAttachmentName } from "../names.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { sharedContents } from "./content.ts";

/** Number of attachments whose content is read concurrently. */
const READ_COUNT = 200;

export type Resolution =
  | { readonly kind: "resolved"; readonly attachments: readonly Attachment[] }
  | { readonly kind: "missing-stub"; readonly name: string };

/** Lists of attachments to which stubs can refer, in order of precedence. */
export type StubSource = readonly (readonly Attachment[])[];

/**
 * Resolves edits in batches, and yields to the event loop between batches if necessary, because a
 * document can have two thousand attachments.
 */
export async function resolveAttachments(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  edits: readonly AttachmentEdit[],
  {
    stubs,
    generation,
    yielder,
  }: { readonly stubs: StubSource; readonly generation: number; readonly yielder: Yielder },
): Promise<Resolution> {
  const sources = stubs.map((list) => new Map(list.map((stored) => [stored.name, stored])));
  const attachments: Attachment[] = [];
  for (const some of chunksOf(edits, READ_COUNT)) {
    if (yielder.isDue) await yielder.yield();
    const staged = some.flatMap((edit) => (edit.kind === "stub" ? [] : [edit.content]));
    const contents = staged.length === 0 ? [] : await sharedContents(tx, keys, staged);
    let next = 0;
    for (const edit of some) {
      checkAttachmentName(edit.name);
      if (edit.kind === "stub") {
        const stub = resolveStub(edit, sources);
        if (stub === undefined) return { kind: "missing-stub", name: edit.name };
        attachments.push(stub);
        continue;
      }
      const { name, contentType, revisionPosition = generation } = edit;
      const content = contents[next++] as StagedContent;
      attachments.push({ name, contentType, revisionPosition, ...content });
    }
  }
  const names = new Set(attachments.map(({ name }) => name));
  assert(names.size === attachments.length, "Attachment names must be unique in a document");
  return { kind: "resolved", attachments };
}

/**
 * Returns the attachment from the first list that has one with the stub's name and digest. For a
 * stub without a digest, compares the revision position instead, if the stub has one.
 */
function resolveStub(
  stub: AttachmentEdit & { readonly kind: "stub" },
  sources: readonly ReadonlyMap<string, Attachment>[],
): Attachment | undefined {
  for (const attachments of sources) {
    const named = attachments.get(stub.name);
    if (named !== undefined && isMeant(stub, named)) return named;
  }
  return undefined;
}

function isMeant(
  stub: AttachmentEdit & { readonly kind: "stub" },
  { digest, revisionPosition }: Attachment,
): boolean {
  if (stub.digest !== undefined) return digest === stub.digest;
  return stub.revisionPosition === undefined || revisionPosition === stub.revisionPosition;
}
