/** Reduces documents to selected fields (`fields` of `_find`). Values keep their original text. */
import {
  type JsonMember,
  type JsonText,
  joinObject,
  largest,
  type Yielder,
} from "../../base/index.ts";
import type { ViewedDocument } from "../documents/document-view.ts";

/** Node of a projected document: a value, or an object under construction. */
type Node = JsonText | Map<string, Node>;

/**
 * Reduces a document to the given paths, each a list of segments. Missing fields are omitted; if
 * one field contains another, the result has the outer one. Yields to the event loop while
 * processing a long document.
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

/** Builds a document from known values and their paths. */
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
  // A field that contains this one has already been placed, with its whole value.
  if (typeof inner === "string") return;
  object.set(name, inner);
  place(inner, rest, value);
}

function textOf(node: Node): JsonText {
  if (typeof node === "string") return node;
  const members: JsonMember[] = [...node].map(([name, value]) => ({ name, value: textOf(value) }));
  return joinObject(members);
}
