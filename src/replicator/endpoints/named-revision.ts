/**
 * Extracts the revision from a document's JSON text without parsing the rest. The text must be
 * valid.
 */
import type { JsonText } from "../../base/index.ts";

/** Returns the member `_rev` of a document, or "" if it has no such member. */
export function namedRevision(text: JsonText): string {
  const { _rev: revision } = (JSON.parse(text) ?? {}) as { readonly _rev?: unknown };
  return typeof revision === "string" ? revision : "";
}
