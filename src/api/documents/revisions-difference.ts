/** `_revs_diff` and `_missing_revs`: which of the given revisions this database lacks. */
import {
  JsonLimitError,
  type JsonValue,
  type NamedValue,
  outlineJson,
  Utf8Writer,
} from "../../base/index.ts";
import type { MissingRevisions } from "../../databases/index.ts";
import { type BatchSizes, batchesOf } from "../../documents/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { isTextList } from "../http/query.ts";
import { readJsonRows } from "../http/request-body.ts";
import { jsonBytes } from "../http/responses.ts";
import { MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { checkRevision } from "./document-options.ts";

/**
 * Maximum number of documents, and maximum total length of their requested revisions, per
 * transaction.
 */
const PAGE_SIZES: BatchSizes<NamedValue> = {
  countMax: 500,
  lengthMax: 262_144,
  lengthOf: ({ value }) => value.length,
};
const ANSWER_BYTES_EXPECTED = 4_096;
/**
 * Maximum number of revisions per document. CouchDB has no limit. Replicators send leaves, of which
 * a document has few.
 */
const REVISIONS_MAX = 10_000;

export function revisionsDifferenceRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("POST", "/{database}/_revs_diff", { ...MEMBER, isBatched: true }, (call) =>
      revisionsDifference(parts, call),
    ),
    defineRoute("POST", "/{database}/_missing_revs", MEMBER, (call) =>
      missingRevisions(parts, call),
    ),
  ];
}

async function revisionsDifference(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  return compare(parts, call, ["{", "}"], ({ missing, possibleAncestors }) => {
    const ancestors =
      possibleAncestors.length === 0
        ? ""
        : `,"possible_ancestors":${JSON.stringify(possibleAncestors)}`;
    return `{"missing":${JSON.stringify(missing)}${ancestors}}`;
  });
}

async function missingRevisions(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  return compare(parts, call, ['{"missing_revs":{', "}}"], ({ missing }) =>
    JSON.stringify(missing),
  );
}

type AskedRevisions = readonly [id: string, revisions: readonly string[]];

/**
 * The response has a member for each document with missing revisions. Each page of the request is
 * processed before the next one is parsed, since a parsed row takes many times the memory of its
 * text.
 */
async function compare(
  parts: DatabaseParts,
  call: Call,
  [open, close]: readonly [string, string],
  textOf: (found: MissingRevisions) => string,
): Promise<ApiResponse> {
  const rows = await readJsonRows(call);
  const answer = new Utf8Writer(ANSWER_BYTES_EXPECTED);
  answer.text(open);
  let separator = "";
  for (const page of pagesOf(rows.eachValue())) {
    if (call.yielder.isDue) await call.yielder.yield();
    const asked = page.map(askedRevisions);
    const answers = await readDatabase(parts, call, (tx, database) =>
      database.documents.missingRevisions(tx, asked),
    );
    for (const [index, found] of answers.entries()) {
      if (found.missing.length === 0) continue;
      const [id] = asked[index] as AskedRevisions;
      answer.text(`${separator}${JSON.stringify(id)}:${textOf(found)}`);
      separator = ",";
    }
  }
  answer.text(close);
  return jsonBytes(200, answer);
}

/** Yields at least one page, so that a missing database is noticed. */
function* pagesOf(rows: Iterable<NamedValue>): Generator<readonly NamedValue[]> {
  let isNone = true;
  for (const page of batchesOf(rows, PAGE_SIZES)) {
    isNone = false;
    yield page;
  }
  if (isNone) yield [];
}

function askedRevisions({ name, value }: NamedValue): AskedRevisions {
  if (areTooMany(value)) {
    const reason = `A request may list at most ${REVISIONS_MAX} revisions of each document`;
    throw new ProtocolError(413, "too_large", reason);
  }
  const revisions: unknown = JSON.parse(value.text);
  if (!isTextList(revisions)) {
    throw badRequest(`The revisions of "${name}" must be a JSON array of strings`);
  }
  revisions.forEach(checkRevision);
  return [name, revisions.length === 1 ? revisions : [...new Set(revisions)]];
}

/** Whether a list has too many values. Scans the list, because parsing takes ten times as long. */
function areTooMany({ bytes, length }: JsonValue): boolean {
  if (length < REVISIONS_MAX * SHORTEST_LENGTH) return false;
  try {
    // The list itself counts as one more value.
    outlineJson(bytes, { depthMax: 0, valueCountMax: REVISIONS_MAX + 1 });
    return false;
  } catch (error) {
    if (error instanceof JsonLimitError) return true;
    throw error;
  }
}

/** Length of the shortest possible revision in a list. */
const SHORTEST_LENGTH = '"1-a",'.length;
