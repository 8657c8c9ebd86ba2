/** `_revs_diff` and `_missing_revs`: the revisions of a peer that this database lacks. */
import type { MissingRevisions } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { isTextList } from "../http/query.ts";
import { readJsonValues } from "../http/request-body.ts";
import { json, jsonText } from "../http/responses.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { checkRevision } from "./document-options.ts";

/** Documents looked at in one transaction. */
const PAGE_COUNT_MAX = 500;
/** Of one document. CouchDB: has no bound; replicators ask for leaves, of which a document has some. */
const REVISIONS_MAX = 10_000;

export function revisionsDifferenceRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("POST", "/{database}/_revs_diff", (call) => revisionsDifference(parts, call)),
    defineRoute("POST", "/{database}/_missing_revs", (call) => missingRevisions(parts, call)),
  ];
}

async function revisionsDifference(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const members = (await compare(parts, call)).map(([id, { missing, possibleAncestors }]) => {
    const ancestors =
      possibleAncestors.length === 0
        ? ""
        : `,"possible_ancestors":${JSON.stringify(possibleAncestors)}`;
    return `${JSON.stringify(id)}:{"missing":${JSON.stringify(missing)}${ancestors}}`;
  });
  return jsonText(200, `{${members.join(",")}}`);
}

async function missingRevisions(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const rows = await compare(parts, call);
  const missing = Object.fromEntries(rows.map(([id, row]) => [id, row.missing]));
  return json(200, { missing_revs: missing });
}

/** The documents of which something is missing. */
async function compare(
  parts: DatabaseParts,
  call: Call,
): Promise<(readonly [id: string, MissingRevisions])[]> {
  const asked = [...(await askedRevisions(call))];
  const rows: (readonly [string, MissingRevisions])[] = [];
  let start = 0;
  do {
    const page = asked.slice(start, start + PAGE_COUNT_MAX);
    const answers = await readDatabase(parts, call, (tx, database) =>
      database.missingRevisions(tx, page),
    );
    for (const [index, answer] of answers.entries()) {
      const [id] = page[index] as readonly [string, readonly string[]];
      if (answer.missing.length > 0) rows.push([id, answer]);
    }
    start += PAGE_COUNT_MAX;
    if (call.turns.areDue) await call.turns.give();
  } while (start < asked.length);
  return rows;
}

/** Throws a ProtocolError when a document is named twice. */
async function askedRevisions(call: Call): Promise<Map<string, readonly string[]>> {
  const asked = new Map<string, readonly string[]>();
  for (const [name, value] of await readJsonValues(call, 1, "question")) {
    if (call.turns.areDue) await call.turns.give();
    const revisions: unknown = JSON.parse(value.text);
    if (!isTextList(revisions)) {
      throw badRequest(`The revisions of "${name}" must be a JSON array of strings`);
    }
    if (revisions.length > REVISIONS_MAX) {
      const reason = `There are at most ${REVISIONS_MAX} revisions of one document in one request`;
      throw new ProtocolError(413, "too_large", reason);
    }
    revisions.forEach(checkRevision);
    asked.set(name, revisions.length === 1 ? revisions : [...new Set(revisions)]);
  }
  return asked;
}
