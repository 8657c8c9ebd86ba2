/**
 * Documents between the store and the wire, for the API and the replicator: rendering them as text,
 * parsing text into edits, validation by design documents, and resolution of conflicts.
 *
 * Reading order: stored-document.ts, document-edits.ts, write-edits.ts, document-validation.ts,
 * design-filter.ts, resolve-conflict.ts.
 */
export { type BatchSizes, batchesOf } from "./batches.ts";
export {
  type ConflictPolicy,
  checkConflictDatabase,
  parseConflictPolicy,
  writeTimeOf,
} from "./conflict-policy.ts";
export { DesignCodes } from "./design-codes.ts";
export type { FilterName, FilterRequest } from "./design-filter.ts";
export { openDesignFilter, parseFilterName } from "./design-filter.ts";
export type { DesignFunctions } from "./design-functions.ts";
export { replicatedEdit, replicatedRevision, stubEdit } from "./document-edits.ts";
export { type Fields, fieldsOfDocument, fieldsOfText } from "./document-fields.ts";
export type { DocumentFilter } from "./document-filter.ts";
export { matchingFilter } from "./document-filter.ts";
export { DocumentSelector, type SelectorLimits } from "./document-selector.ts";
export { transactValidated, VALIDATION_HOOK } from "./document-validation.ts";
export type { RefusedBatch } from "./refused-batch.ts";
export { splitRefused, writeInHalves } from "./refused-batch.ts";
export { type ConflictParts, ConflictResolution, callFunction } from "./resolve-conflict.ts";
export { documentArgument, type SandboxArgument } from "./sandbox-run.ts";
export type { DescribedAttachment, WholeAttachment } from "./stage-attachment.ts";
export { CONTENT_TYPE_DEFAULT, stageAttachment, stageAttachments } from "./stage-attachment.ts";
export type { RenderOptions } from "./stored-document.ts";
export {
  attachmentsSince,
  renderStoredDocument,
  storedDocumentJson,
  storedDocumentPieces,
  writeStoredDocument,
} from "./stored-document.ts";
export { type UndoSelection, undoResolutions } from "./undo-resolutions.ts";
export { writeEdits } from "./write-edits.ts";
export type { RefusedOutcome } from "./write-refusal.ts";
export { isWritten, writeRefusal } from "./write-refusal.ts";
