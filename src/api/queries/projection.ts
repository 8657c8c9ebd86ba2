/** Reduces documents to some fields (`fields` of `_find`). Values keep their original text. */
import {
  type JsonMember,
  type JsonText,
  joinObject,
  largest,
  type Yielder,
} from "../../base/index.ts";
import type { ViewedDocument } from "../documents/document-view.ts";

/** A value, or an object under construction. */
type Node = JsonText | Map<string, Node>;

/**
 * Each path is a list of segments. Missing fields are omitted; of two overlapping ones, the later
 * wins. A long document is processed in pieces that yield.
 */
export async function projectDocument(
  document: ViewedDocument,
  paths: readonly (readonly string[])[],
  yielder: Yielder,
): Promise<JsonText> {
  const depth = largest(paths.map((path) => path.length));
  const values = await document.fields(depth, yielder);
  const result = new Map<string, Node>();
  for (const path of paths) {
    if (yielder.isDue) await yielder.yield();
    const value = await values.at(path);
    if (value !== undefined) place(result, path, value.text);
  }
  return textOf(result);
}

/** A document of which only these values are known, each with its path. */
export function documentOf(
  values: Iterable<readonly [path: readonly string[], value: JsonText]>,
): JsonText {
  const document = new Map<string, Node>();
  for (const [path, value] of values) place(document, path, value);
  return textOf(document);
}

function place(object: Map<string, Node>, path: readonly string[], value: JsonText): void {
  const [name = "", ...rest] = path;
  if (rest.length === 0) {
    object.set(name, value);
    return;
  }
  const inner = object.get(name) ?? new Map<string, Node>();
  // The value of an outer field already contains the inner one.
  if (typeof inner === "string") return;
  object.set(name, inner);
  place(inner, rest, value);
}

function textOf(node: Node): JsonText {
  if (typeof node === "string") return node;
  const members: JsonMember[] = [...node].map(([name, value]) => ({ name, value: textOf(value) }));
  return joinObject(members);
}
