/** Extracts the revision from a document's text, ignoring the rest. `text` must be valid JSON. */
import type { JsonText } from "../../base/index.ts";

/** Returns the member `_rev` of a document, or "" if it has no such member. */
export function namedRevision(text: JsonText): string {
  const { _rev: revision } = (JSON.parse(text) ?? {}) as { readonly _rev?: unknown };
  return typeof revision === "string" ? revision : "";
}
