/** Local documents: checkpoints and other documents that are not replicated. */
import { base64Encode, hexDecode, md5HexOf } from "../../base/index.ts";
import {
  badRequest,
  ProtocolError,
  type WireDocument,
  wireDocumentPieces,
} from "../../protocol/index.ts";
import { locationOf, readDatabase, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readDocumentBody } from "../http/request-body.ts";
import { json, jsonAsIs, matchesEntityTag, notModified } from "../http/responses.ts";
import { DOCUMENT } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { notFound } from "./document-request.ts";
import { checkWire } from "./edits.ts";

export function localDocumentRoutes(parts: DatabaseParts): Route[] {
  const path = "/{database}/_local/{name}";
  const id = (call: Call): string => `_local/${parameter(call, "name")}`;
  return [
    ...["GET", "PUT", "DELETE"].map((method) =>
      defineRoute(method, `${path}/{attachment...}`, DOCUMENT, refuseAttachment),
    ),
    defineRoute("GET", path, { ...DOCUMENT, isBatched: true }, (call) =>
      readLocal(parts, call, id(call)),
    ),
    defineRoute("PUT", path, { ...DOCUMENT, isBatched: true }, (call) =>
      writeLocal(parts, call, id(call)),
    ),
    defineRoute("DELETE", path, DOCUMENT, (call) => deleteLocal(parts, call, id(call))),
  ];
}

export async function readLocal(
  parts: DatabaseParts,
  call: Call,
  id: string,
): Promise<ApiResponse> {
  const found = await readDatabase(parts, call, (tx, database) => database.local.read(tx, id));
  if (found === undefined) throw notFound("missing");
  const pieces = wireDocumentPieces({ ...found, deleted: false });
  // The entity tag is a digest of the content, not the revision. A local document that is removed
  // and re-created has the same revision again.
  const digest = hexDecode(md5HexOf(parts.runtime.digests, pieces)) as Uint8Array;
  const tag = `"${base64Encode(digest)}"`;
  if (matchesEntityTag(call.request.headers.get("if-none-match"), tag)) {
    return notModified({ ETag: tag });
  }
  return jsonAsIs(pieces, { ETag: tag });
}

export async function writeLocal(
  parts: DatabaseParts,
  call: Call,
  id: string,
): Promise<ApiResponse> {
  const wire = await readDocumentBody(call, "unique");
  // As in CouchDB, local documents have no attachments: those in the request are dropped.
  checkWire(parts, { ...wire, attachments: [], id });
  const parent = call.request.query.get("rev") || parentOf(wire);
  const outcome = await writeDatabase(
    parts,
    call,
    (tx, database) =>
      wire.deleted
        ? database.local.remove(tx, id, parent)
        : database.local.write(tx, { id, parent, body: wire.body }),
    wire.deleted ? {} : { whenUnknown: "retry" },
  );
  if (outcome.kind !== "written") {
    if (wire.deleted) throw notFound("missing");
    throw new ProtocolError(409, "conflict", "Document update conflict.");
  }
  const { revision } = outcome;
  const headers = { ETag: `"${revision}"`, Location: locationOf(call, id) };
  return json(wire.deleted ? 200 : 201, { ok: true, id, rev: revision }, headers);
}

/**
 * The revision in a body. As in CouchDB, the first entry of `_revisions` takes precedence over
 * `_rev`.
 */
function parentOf({ revision, revisions }: WireDocument): string | undefined {
  const [first] = revisions?.hashes ?? [];
  return first === undefined ? revision : `${revisions?.start}-${first}`;
}

async function refuseAttachment(): Promise<never> {
  throw badRequest("_local documents do not accept attachments.");
}

export async function deleteLocal(
  parts: DatabaseParts,
  call: Call,
  id: string,
): Promise<ApiResponse> {
  const parent = call.request.query.get("rev") || undefined;
  const outcome = await writeDatabase(parts, call, (tx, database) =>
    database.local.remove(tx, id, parent),
  );
  if (outcome.kind !== "written") throw notFound("missing");
  return json(200, { ok: true, id, rev: outcome.revision }, { ETag: `"${outcome.revision}"` });
}
