/**
 * The answer to `_bulk_get`, cut into the documents' texts. Nearly all of a first replication passes here, so a row in the form in which
 * servers write one (`{"id":…,"docs":[{"ok":{…}}]}`) is gone through once; any other is taken apart.
 */
import { type JsonText, splitArray, splitObject } from "../base/index.ts";
import { ProtocolError, parseWireDocument } from "../protocol/index.ts";
import type { BulkReadResult, PlainDocument, RevisionRequest } from "./endpoint.ts";

/** The answer's text, and what it says. */
export interface BulkGetAnswer {
  readonly text: JsonText;
  readonly json: unknown;
}

interface Row {
  readonly id?: unknown;
  readonly docs?: readonly { readonly ok?: { readonly _id?: unknown } }[];
}

const RESULTS = '{"results":[';

/** Results in the order of the requests; undefined when the answer speaks of others, or is none. */
export function parseBulkGet(
  { text, json }: BulkGetAnswer,
  requests: readonly RevisionRequest[],
): readonly BulkReadResult[] | undefined {
  const rows = (json as { readonly results?: unknown } | undefined)?.results;
  if (!Array.isArray(rows) || rows.length !== requests.length) return undefined;
  const texts = rowTexts(text);
  if (texts?.length !== rows.length) return undefined;
  const read: BulkReadResult[] = [];
  for (const [index, { id }] of requests.entries()) {
    const rowText = texts[index] as JsonText;
    // In another order than asked for, a row that names an error says nothing of what is missing.
    const result = usualRow(rowText, rows[index] as Row, id) ?? anyRow(rowText, id);
    if (result === undefined) return undefined;
    read.push(result);
  }
  return read;
}

function rowTexts(text: JsonText): readonly JsonText[] | undefined {
  // `splitArray` stops where the array does: what comes behind it is not looked at.
  if (text.startsWith(RESULTS)) return splitArray(text.slice(RESULTS.length - 1));
  const results = splitObject(text).find(({ name }) => name === "results");
  return results && splitArray(results.value);
}

/** One document without attachments; undefined for anything else. */
function usualRow(text: JsonText, row: Row | null, id: string): BulkReadResult | undefined {
  const [item] = row?.docs ?? [];
  const document = item?.ok;
  const isOne = row?.docs?.length === 1 && row.id === id && document?._id === id;
  if (!isOne || Object.hasOwn(document, "_attachments")) return undefined;
  if (Object.keys(row).length !== 2 || Object.keys(item as object).length !== 1) return undefined;
  const head = `{"id":${JSON.stringify(id)},"docs":[{"ok":`;
  if (!text.startsWith(head) || !text.endsWith("}}]}")) return undefined;
  return { kind: "documents", documents: [{ id, text: text.slice(head.length, -3) }] };
}

function anyRow(row: JsonText, id: string): BulkReadResult | undefined {
  const members = splitObject(row);
  const named = members.find(({ name }) => name === "id")?.value;
  if (named !== undefined && JSON.parse(named) !== id) return undefined;
  const docs = members.find(({ name }) => name === "docs")?.value ?? "[]";
  const documents: PlainDocument[] = [];
  for (const item of splitArray(docs)) {
    const ok = splitObject(item).find(({ name }) => name === "ok");
    if (ok === undefined) return { kind: "separately" };
    if (!isPlain(ok.value, id)) return { kind: "separately" };
    documents.push({ id, text: ok.value });
  }
  return documents.length === 0 ? { kind: "separately" } : { kind: "documents", documents };
}

function isPlain(text: JsonText, id: string): boolean {
  try {
    const document = parseWireDocument(text);
    return document.id === id && document.attachments.length === 0;
  } catch (error) {
    // One that is no document to us shall not take the others with it.
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}
