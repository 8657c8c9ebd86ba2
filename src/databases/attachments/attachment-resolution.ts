/** Finds the attachments of a new revision from those that its edit names. */
import { assert } from "../../base/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { Attachment, AttachmentEdit } from "../document.ts";
import { checkAttachmentName } from "../names.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { sharedContent } from "./content.ts";

export type Resolution =
  | { readonly kind: "resolved"; readonly attachments: readonly Attachment[] }
  | { readonly kind: "missing-stub"; readonly name: string };

/** Where stubs may point: the attachments of the parent, or of all leaves, the nearest first. */
export type StubSource = readonly (readonly Attachment[])[];

export async function resolveAttachments(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  edits: readonly AttachmentEdit[],
  { stubs, generation }: { readonly stubs: StubSource; readonly generation: number },
): Promise<Resolution> {
  const sources = stubs.map((list) => new Map(list.map((stored) => [stored.name, stored])));
  const resolved = await Promise.all(
    edits.map(async (edit) => {
      checkAttachmentName(edit.name);
      if (edit.kind === "stub") return resolveStub(edit, sources);
      const content = await sharedContent(tx, keys, edit.content);
      const revisionPosition = edit.revisionPosition ?? generation;
      const { name, contentType } = edit;
      return { name, contentType, revisionPosition, ...content };
    }),
  );
  const attachments: Attachment[] = [];
  for (const [index, attachment] of resolved.entries()) {
    if (attachment === undefined) {
      return { kind: "missing-stub", name: (edits[index] as AttachmentEdit).name };
    }
    attachments.push(attachment);
  }
  const names = new Set(attachments.map(({ name }) => name));
  assert(names.size === attachments.length, "An attachment's name stands once in a document");
  return { kind: "resolved", attachments };
}

/** By name, and by digest or else position when the stub says them: what it does not say may be anything. */
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
