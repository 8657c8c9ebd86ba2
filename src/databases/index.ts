/**
 * Documents with revision trees, update sequences, attachments and local documents, on the
 * key-value layer. This layer knows neither jobs nor replication.
 *
 * One folder per subject; a folder imports only those above it:
 *
 *   revisions    revision names and the revision tree
 *   records      the stored form of every record, and every key
 *   counters     counts of documents and of pending changes
 *   attachments  the bytes of attachments: staged, referred to, reclaimed
 *   documents    writing, reading, listing and purging documents
 *   changes      the changes feed, and the updates of all databases
 *   security     security objects
 *
 * The top level is for higher layers: `DatabaseRegistry`, which opens a `Database` in the caller's
 * transaction, and the hooks. Reading order: document.ts, database.ts,
 * documents/document-writer.ts, revisions/revision-tree.ts, hooks.ts.
 *
 * A transaction that has written documents of a database cannot use the database's `changes` or
 * `info`, because versionstamped values cannot be read before the commit. It can read and write the
 * documents themselves. A batch has to fit into one transaction of the store (10 MB); callers with
 * more to write use several.
 *
 * Errors, by code:
 *
 *   STORE_DATABASE_EXISTS, _NOT_FOUND, _NAME_INVALID {database}
 *   STORE_DOCUMENT_ID_INVALID {id, reason}
 *   STORE_DOCUMENT_TOO_LARGE {id, byteCount, max}
 *   STORE_REVISION_INVALID {revision}
 *   STORE_REVISION_LIMIT_INVALID {revisionLimit}
 *   STORE_PURGE_LIMIT_INVALID {limit}
 *   STORE_SEQUENCE_INVALID {sequence}
 *   STORE_ATTACHMENT_NAME_INVALID {name, reason}
 *   STORE_ATTACHMENT_DIGEST_MISMATCH, _LENGTH_MISMATCH {expected, actual}: staged bytes
 *   STORE_ATTACHMENT_ENCODING_INVALID {encoding}: declared as gzip, but is not
 *   STORE_ATTACHMENT_CONTENT_GONE {contentId}: staged too long ago, or the last leaf with it was
 *     removed during the read
 *   STORE_FUNCTION_FAILED {error, reason}: a function of a design document
 */
export type { StageOptions } from "./attachments/attachment-store.ts";
export { AttachmentStore } from "./attachments/attachment-store.ts";
export type { Authority } from "./authority.ts";
export {
  authorityOf,
  isSameAuthority,
  mayNameSecrets,
  ownerKey,
  vouchedSubject,
} from "./authority.ts";
export type { ChangesOfDocuments, ChangesOptions } from "./changes/changes-feed.ts";
export { LOOKED_UP_MAX } from "./changes/changes-feed.ts";
export type { DatabaseUpdate } from "./changes/database-updates.ts";
export { FIRST_SEQUENCE } from "./changes/sequence.ts";
export type { ChangePeriod } from "./changes/times.ts";
export type { PurgedTombstones } from "./changes/tombstones.ts";
export { Database } from "./database.ts";
export type { NamesOptions } from "./database-registry.ts";
export { DatabaseRegistry } from "./database-registry.ts";
export type {
  Attachment,
  AttachmentEdit,
  Change,
  DatabaseInfo,
  Document,
  DocumentEdit,
  Leaf,
  LocalDocument,
  Revision,
  RevisionPath,
  StagedContent,
  WriteOutcome,
} from "./document.ts";
export type { Conflict } from "./documents/conflicts.ts";
export type { Purge } from "./documents/document-purger.ts";
export type { WantedRevision } from "./documents/documents.ts";
export { BODY_BYTES_MAX } from "./documents/leaf-writer.ts";
export { PageSize } from "./documents/page-size.ts";
export { PurgeSize } from "./documents/purge-size.ts";
export type { Resolution } from "./documents/resolutions.ts";
export { RESOLUTIONS_MAX } from "./documents/resolutions.ts";
export type {
  DatabaseHook,
  EditVerdict,
  HookedDatabase,
  WriteContext,
  WriteValidation,
} from "./hooks.ts";
export { checkDocumentId, isDatabaseName } from "./names.ts";
export { DATABASE_KEY_SHAPES, REGISTRY_KEY_SHAPES } from "./records/database-keys.ts";
export type { UnresolvedRecord as Unresolved } from "./records/resolution-record.ts";
export { isRevision } from "./revisions/revision.ts";
export type { MissingRevisions } from "./revisions/revision-questions.ts";
export type {
  Refusal,
  Sandbox,
  SandboxCall,
  SandboxResult,
  SelectorCall,
  Share,
} from "./sandbox.ts";
export { SandboxError, shareOf, shareOfIndexes } from "./sandbox.ts";
export { SECURITY_ADMIN_ONLY, SECURITY_BYTES_MAX } from "./security/security.ts";
export type { SecuritySubject } from "./security/security-object.ts";
export { isDatabaseAdmin, isDatabaseMember } from "./security/security-object.ts";
export { isSystemName, namesSystemDatabase, UntrustedName } from "./untrusted-name.ts";
