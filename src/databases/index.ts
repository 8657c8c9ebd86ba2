/**
 * Documents with revision trees, update sequences, attachments and local documents, on the key-value layer; it knows neither
 * jobs nor replication. Begin with `DatabaseRegistry`, which opens a `Database` in a transaction of the caller's.
 */
export type { AllDocumentsOptions, DocumentRow } from "./all-documents.ts";
export type { ReadContentOptions, Reclaimed, StageOptions } from "./attachment-store.ts";
export { AttachmentStore } from "./attachment-store.ts";
export type { ChangesOptions } from "./changes-feed.ts";
export type { MissingRevisions, RevisionStatus } from "./database.ts";
export { Database } from "./database.ts";
export { DATABASE_KEY_SHAPES, REGISTRY_KEY_SHAPES } from "./database-keys.ts";
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
  WriteContext,
  WriteOutcome,
} from "./document.ts";
export { BODY_BYTES_MAX } from "./document-writer.ts";
export type { DatabaseHook, Verdict } from "./hooks.ts";
export type { LocalDocumentsOptions, LocalEdit } from "./local-documents.ts";
export { checkDocumentId, isDatabaseName } from "./names.ts";
export { FIRST_SEQUENCE } from "./sequence.ts";
