/**
 * Indexes of databases (Mango's type `json`): definitions in design documents, entries written with
 * each document, the first build as a background job, and the choice of an index for a query.
 *
 * Reading order: index-definition.ts, index-keyspace.ts, collation.ts, index-key.ts,
 * indexed-document.ts, indexes.ts, index-builds.ts; field-ranges.ts, choose-index.ts.
 */
export type { Candidate, Choice } from "./choose-index.ts";
export { ALL_DOCUMENTS, chooseIndex, compareText, covers, isNamedBy } from "./choose-index.ts";
export type { Bound, Range } from "./field-ranges.ts";
export type { RunningBuild } from "./index-builds.ts";
export { INDEX_JOB_TYPE, IndexBuilds, scheduleBuild } from "./index-builds.ts";
export { faultOf, INDEXES_MAX } from "./index-definition.ts";
export type { EntryRange, FieldRange } from "./index-key.ts";
export type { IndexState } from "./index-keyspace.ts";
export { INDEX_KEY_SHAPES } from "./index-keyspace.ts";
export { CONFLICTS } from "./indexed-document.ts";
export type { Entry } from "./indexes.ts";
export { Index, Indexes } from "./indexes.ts";
