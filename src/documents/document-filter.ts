/** The port of a filter: which documents pass. */
import type { Document } from "../databases/index.ts";
import { renderStoredDocument } from "./stored-document.ts";

/** Whether each of the documents passes. One that is a function throws a SandboxError when that fails. */
export type DocumentFilter = (documents: readonly Document[]) => Promise<boolean[]>;

/** Those pass that match, such as a compiled selector, in their form on the wire. */
export function matchingFilter(matches: (document: unknown) => boolean): DocumentFilter {
  return async (documents) =>
    documents.map((document) => matches(JSON.parse(renderStoredDocument(document))));
}
