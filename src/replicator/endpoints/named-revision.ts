/** Finds the revision that a document's text names, and ignores the rest. `text` must be valid JSON. */
import type { JsonText } from "../../base/index.ts";

/** Empty when it names none. */
export function namedRevision(text: JsonText): string {
  const { _rev: revision } = (JSON.parse(text) ?? {}) as { readonly _rev?: unknown };
  return typeof revision === "string" ? revision : "";
}
