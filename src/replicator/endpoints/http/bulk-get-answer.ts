/**
 * Splits the response to `_bulk_get` into the documents' texts. Nearly all data of an initial
 * replication pass through this code, so the text is scanned only once.
 */
import type { JsonText, JsonValue, Utf8Writer } from "../../../base/index.ts";
import {
  DOCUMENT_NESTING_MAX,
  type WireDocument,
  wireDocumentOf,
} from "../../../protocol/index.ts";
import type { BulkReadResult, PlainDocument, RevisionRequest } from "../endpoint.ts";
import { historyFault } from "./received-history.ts";
import type { Outline } from "./requests.ts";

/**
 * Nesting level of a document's members in a `_bulk_get` response:
 * `{"results":[{"docs":[{"ok":{…}}]}]}`.
 */
const MEMBERS_DEPTH = 6;

/**
 * Scanning depth of a `_bulk_get` response: down to the members of documents. If a document is
 * nested too deeply, all documents of the response are requested individually.
 */
export const BULK_GET: Outline = {
  depthMax: MEMBERS_DEPTH,
  nestingMax: MEMBERS_DEPTH - 1 + DOCUMENT_NESTING_MAX,
};

/**
 * Scanning depth of a `_bulk_get` response with inlined attachments: down to the members of each
 * attachment.
 */
export const BULK_GET_WITH_ATTACHMENTS: Outline = { ...BULK_GET, depthMax: MEMBERS_DEPTH + 2 };

/**
 * Returns the results in the order of the requests, or undefined if the response is invalid or its
 * rows do not match the requests. `attachments` is true if attachments were requested.
 */
export function parseBulkGet(
  answer: JsonValue | undefined,
  requests: readonly RevisionRequest[],
  { attachments = false }: { readonly attachments?: boolean } = {},
): readonly BulkReadResult[] | undefined {
  const results = answer?.member("results");
  if (results?.elementCount !== requests.length) return undefined;
  const rows = results.elements();
  const read: BulkReadResult[] = [];
  for (const [index, { id }] of requests.entries()) {
    // Rows are matched to requests by position: a row with an error does not identify the revision
    // that is missing.
    const result = resultOf(rows[index] as JsonValue, id, attachments);
    if (result === undefined) return undefined;
    read.push(result);
  }
  return read;
}

function resultOf(row: JsonValue, id: string, withBytes: boolean): BulkReadResult | undefined {
  const named = row.member("id");
  if (!row.isObject || (named !== undefined && !named.isString(id))) return undefined;
  const items = elementsOf(row.member("docs")) ?? [];
  if (items.length === 0) return { kind: "separately" };
  const documents = new Array<PlainDocument>(items.length);
  let isPlain = true;
  for (let index = 0; index < items.length; index++) {
    const document = items[index]?.member("ok");
    if (document?.member("_id")?.isString(id) !== true) return { kind: "separately" };
    if (historyFault(document) !== undefined) return { kind: "separately" };
    const attachments = document.member("_attachments");
    if (attachments !== undefined && !(withBytes && areInline(attachments))) isPlain = false;
    documents[index] = new ReadDocument(id, document, attachments !== undefined);
  }
  return isPlain ? { kind: "documents", documents } : { kind: "separately", outlines: documents };
}

/** Whether all attachments are inlined, and stored uncompressed by the source. */
function areInline(attachments: JsonValue): boolean {
  if (!attachments.isObject) return false;
  for (const { value } of attachments.eachValue()) {
    const isWhole = value.member("data")?.kind === "string";
    if (!isWhole || value.member("encoding") !== undefined) return false;
  }
  return true;
}

function elementsOf(value: JsonValue | undefined): JsonValue[] | undefined {
  return value?.isArray === true ? value.elements() : undefined;
}

/** A document of a bulk read. It keeps the received bytes, and creates its text on each access. */
class ReadDocument implements PlainDocument {
  readonly id: string;
  readonly #value: JsonValue;

  readonly holdsAttachments: boolean;

  constructor(id: string, value: JsonValue, holdsAttachments: boolean) {
    this.id = id;
    this.#value = value;
    this.holdsAttachments = holdsAttachments;
  }

  get length(): number {
    return this.#value.length;
  }

  get text(): JsonText {
    return this.#value.text;
  }

  writeTo(writer: Utf8Writer): void {
    writer.bytes(this.#value.bytes);
  }

  get wire(): WireDocument {
    return wireDocumentOf(this.#value);
  }
}
