/** The history of a document that a source sent for `revs=true`. */
import type { JsonValue } from "../../../base/index.ts";
import { parseRevision } from "../../../protocol/index.ts";
import { parseObject } from "./json-answer.ts";

/**
 * Usual beginning of a history. Matching it avoids parsing the whole history, which can list a
 * thousand ancestors.
 */
const USUAL_BEGINNING = /^\{"start":(\d+),"ids":\["([^"\\]*)"/;

/**
 * Returns the reason why the document must not be written with its history, if any. Without
 * `_revisions`, a target would treat the revision as a root without ancestors, in conflict with
 * existing revisions. If `_rev` and `_revisions` differ, the target would store the revision named
 * in `_revisions`.
 */
export function historyFault(document: JsonValue): string | undefined {
  const revision = document.member("_rev")?.string;
  const named = revision === undefined ? undefined : parseRevision(revision);
  if (named === undefined) return undefined;
  const text = document.member("_revisions")?.text;
  if (text === undefined) {
    return named.generation > 1 ? "The source sent the document without its history" : undefined;
  }
  const leaf = leafOf(text);
  if (leaf === undefined) return undefined;
  const isSame =
    leaf.start === named.generation && leaf.hash.toLowerCase() === named.hash.toLowerCase();
  return isSame ? undefined : "The source sent the history of a different revision";
}

/**
 * Returns the newest revision of a history, or `undefined` if the history is invalid. An invalid
 * history is rejected when the document is parsed.
 */
function leafOf(text: string): { readonly start: number; readonly hash: string } | undefined {
  const usual = USUAL_BEGINNING.exec(text);
  if (usual !== null) return { start: Number(usual[1]), hash: usual[2] as string };
  const { start, ids } = parseObject(text) ?? {};
  const hash: unknown = Array.isArray(ids) ? ids[0] : undefined;
  return typeof start === "number" && typeof hash === "string" ? { start, hash } : undefined;
}
