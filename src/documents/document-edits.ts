/** Converts a document on the wire into an edit for the store. */
import type { AttachmentEdit, DocumentEdit, RevisionPath } from "../databases/index.ts";
import {
  badRequest,
  formatRevision,
  isMd5Digest,
  ProtocolError,
  parseRevision,
  type WireAttachment,
  type WireDocument,
} from "../protocol/index.ts";

/**
 * Returns the edit for a document with its ancestors (`new_edits: false`). Throws a ProtocolError
 * if the document has no revision.
 */
export function replicatedEdit(
  { id, revision, revisions, deleted, body }: WireDocument,
  attachments: readonly AttachmentEdit[],
): DocumentEdit {
  if (id === undefined) throw badRequest("Document id must be a string");
  const path = revisions ?? pathOf(revision);
  if (path === undefined || path.hashes.length === 0) {
    throw badRequest("A replicated document must have _rev or _revisions");
  }
  // Only the path of a local document can have several revisions and start at generation 0.
  if (path.start === 0 && path.hashes.length > 1 && !id.startsWith("_local/")) {
    throw new ProtocolError(400, "doc_validation", "_revisions.start must be positive.");
  }
  return { mode: "replicated", id, deleted, body, attachments, revisions: path };
}

/**
 * Returns the revision of a replicated edit, or `undefined` for a user's edit, whose revision is
 * computed when it is written.
 */
export function replicatedRevision(edit: DocumentEdit): string | undefined {
  if (edit.mode !== "replicated") return undefined;
  return formatRevision(edit.revisions.start, edit.revisions.hashes[0] ?? "");
}

/** Returns the path of a single revision without ancestors. */
function pathOf(revision: string | undefined): RevisionPath | undefined {
  const parsed = revision === undefined ? undefined : parseRevision(revision);
  return parsed && { start: parsed.generation, hashes: [parsed.hash] };
}

/**
 * Returns the edit that keeps a stored attachment. A digest other than MD5 cannot identify the
 * attachment and is ignored.
 */
export function stubEdit({ name, digest, revisionPosition }: WireAttachment): AttachmentEdit {
  return {
    kind: "stub",
    name,
    ...(isMd5Digest(digest) ? { digest } : {}),
    ...(revisionPosition === undefined ? {} : { revisionPosition }),
  };
}
