/** Values at paths of a stored document. */
import {
  JsonFields,
  type JsonText,
  type JsonValue,
  Utf8Text,
  utf8Encode,
  type Yielder,
} from "../base/index.ts";
import type { Document } from "../databases/index.ts";
import { type RenderOptions, renderStoredDocument } from "./stored-document.ts";

const EMPTY_BODY = Utf8Text.of("{}");

/** Looks up values by path; returns `undefined` for a missing value. */
export type Fields = Pick<JsonFields, "at">;

/** Opens the fields of a document whose whole text is in memory. */
export function fieldsOfText(document: JsonText, depth: number, yielder: Yielder): Promise<Fields> {
  return JsonFields.open(utf8Encode(document), depth, yielder);
}

/** Opens the fields of a long document. Yields to the event loop while scanning the stored body. */
export async function fieldsOfDocument(
  document: Document,
  options: RenderOptions,
  yielder: Yielder,
): Promise<Fields> {
  const body = await JsonFields.open(await document.body.bytesYielding(yielder), 1, yielder);
  const others = renderStoredDocument({ ...document, body: EMPTY_BODY }, options);
  const beside = await JsonFields.open(utf8Encode(others), 1, yielder);
  // Members whose names begin with an underscore are stored separately from the body.
  return {
    at: (path): Promise<JsonValue | undefined> =>
      (path[0]?.startsWith("_") === true ? beside : body).at(path),
  };
}
