/** Reduces documents to some fields (`fields` of `_find`). The values keep the texts that came. */
import {
  type JsonMember,
  type JsonText,
  joinObject,
  jsonKind,
  splitArray,
  splitObject,
} from "../../base/index.ts";

/** A value, or an object that is being put together. */
type Node = JsonText | Map<string, Node>;

/** Each path names a field by its segments. A field that the document lacks is left out; of two that overlap the later counts. */
export function projectDocument(
  document: JsonText,
  paths: readonly (readonly string[])[],
): JsonText {
  const result = new Map<string, Node>();
  for (const path of paths) {
    const value = valueAt(document, path);
    if (value !== undefined) place(result, path, value);
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

function valueAt(document: JsonText, path: readonly string[]): JsonText | undefined {
  let value: JsonText | undefined = document;
  for (const segment of path) {
    const kind = jsonKind(value);
    if (kind === "object") value = memberOf(value, segment);
    else if (kind === "array" && /^\d+$/.test(segment)) value = splitArray(value)[Number(segment)];
    else return undefined;
    if (value === undefined) return undefined;
  }
  return value;
}

/** The last of a repeated name counts. */
function memberOf(object: JsonText, name: string): JsonText | undefined {
  return splitObject(object).findLast((member) => member.name === name)?.value;
}

function place(object: Map<string, Node>, path: readonly string[], value: JsonText): void {
  const [name = "", ...rest] = path;
  if (rest.length === 0) {
    object.set(name, value);
    return;
  }
  const inner = object.get(name) ?? new Map<string, Node>();
  // A whole value that an earlier field brought has the inner one already.
  if (typeof inner === "string") return;
  object.set(name, inner);
  place(inner, rest, value);
}

function textOf(node: Node): JsonText {
  if (typeof node === "string") return node;
  const members: JsonMember[] = [...node].map(([name, value]) => ({ name, value: textOf(value) }));
  return joinObject(members);
}
