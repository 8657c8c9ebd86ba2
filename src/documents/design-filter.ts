/** Filter functions in design documents (`couch_changes`, `couch_query_servers`). */
import { type JsonText, type Runtime, randomHex, Yielder } from "../base/index.ts";
import { type Database, type DatabaseInfo, type Document, shareOf } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { badRequest, ProtocolError } from "../protocol/index.ts";
import { type BatchSizes, batchesOf } from "./batches.ts";
import type { DesignFunctions } from "./design-functions.ts";
import type { DesignOutline } from "./design-outline.ts";
import type { DocumentFilter } from "./document-filter.ts";
import { sandboxRun, storedArgument } from "./sandbox-run.ts";

/** Sizes of the batches of documents passed to the sandbox. */
const CALL_SIZES: BatchSizes<Document> = {
  countMax: 100,
  lengthMax: 1_000_000,
  lengthOf: ({ body }) => body.length,
};

/**
 * The filter `design/name`: a filter function, or the map function of a view. A document passes a
 * map function if the function emits a row.
 */
export interface FilterName {
  readonly kind: "filter" | "view";
  readonly design: string;
  readonly name: string;
}

/** The request as a filter function sees it, as in CouchDB. */
export interface FilterRequest {
  readonly method: string;
  /** Percent-decoded segments of the path. */
  readonly path: readonly string[];
  readonly rawPath: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** A JSON value, or the text "undefined". */
  readonly body: unknown;
  readonly peer: string;
  readonly userName: string | null;
  readonly roles: readonly string[];
  /** Aborts when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
}

/** Parses `design/name`. Throws a ProtocolError for a text of any other form. */
export function parseFilterName(kind: FilterName["kind"], text: string): FilterName {
  const [design = "", name = "", ...more] = text.split("/");
  if (design !== "" && name !== "" && more.length === 0) return { kind, design, name };
  const form = kind === "filter" ? "designname/filtername" : "designname/viewname";
  throw badRequest(`\`${kind}\` must be of the form \`${form}\``);
}

/**
 * Opens the current version of the function; later changes of the design document do not affect the
 * filter. Throws CouchDB's error 404 if the function does not exist.
 */
export async function openDesignFilter(
  tx: ReadTransaction,
  { runtime, functions }: { readonly runtime: Runtime; readonly functions: DesignFunctions },
  database: Database,
  { kind, design, name }: FilterName,
  request: FilterRequest,
): Promise<DocumentFilter> {
  const id = `_design/${design}`;
  const [winner] = await database.documents.leaves(tx, id);
  if (winner === undefined) throw notFound("missing");
  if (winner.deleted) throw notFound("deleted");
  const place = { id, revision: winner.revision };
  const found = await functions.codes.code(tx, database, place, new Yielder(runtime.clock));
  if (found === undefined) throw notFound("missing");
  const { codeId, text: code, outline } = found;
  const path = kind === "filter" ? ["filters", name] : ["views", name, "map"];
  await requireFunction(outline, path);
  const shared =
    kind === "view"
      ? "[]"
      : requestText(request, {
          info: await database.info(tx),
          security: await database.security(tx),
          uuid: randomHex(runtime.random),
        });
  const { sandbox, timeoutMs } = functions;
  const share = shareOf(database.name, request.userName);
  const call = { codeId, code, kind, path, shared, timeoutMs, share, signal: request.signal };
  return async (documents) => {
    const passes: boolean[] = [];
    for (const batch of batchesOf(documents, CALL_SIZES)) {
      const runs = batch.map((document) => sandboxRun([storedArgument(document)]));
      for (const isPassing of await sandbox.call({ ...call, runs })) passes.push(isPassing);
    }
    return passes;
  };
}

function notFound(reason: string): ProtocolError {
  return new ProtocolError(404, "not_found", reason);
}

async function requireFunction(design: DesignOutline, path: readonly string[]): Promise<void> {
  const [group = "", ...names] = path;
  let value = await design.member(group);
  if (value === undefined) throw notFound(`missing json key: ${group}`);
  for (const name of names) {
    value = value.member(name);
    if (value === undefined) throw notFound(`missing json key: ${name}`);
  }
}

/** Returns the arguments that follow the document in a call of a filter function, as JSON. */
function requestText(
  request: FilterRequest,
  {
    info,
    security,
    uuid,
  }: { readonly info: DatabaseInfo; readonly security: JsonText; readonly uuid: string },
): JsonText {
  const { method, path, rawPath, query, headers, body, peer, userName, roles } = request;
  const { name, documentCount, deletedDocumentCount, updateSequence, sizes } = info;
  return JSON.stringify([
    {
      info: {
        db_name: name,
        doc_count: documentCount,
        doc_del_count: deletedDocumentCount,
        update_seq: updateSequence,
        purge_seq: "0",
        compact_running: false,
        sizes,
        instance_start_time: info.instanceStartTime,
        disk_format_version: 8,
        props: {},
        uuid: info.uuid,
      },
      uuid,
      id: null,
      method,
      requested_path: path,
      path,
      raw_path: rawPath,
      query,
      headers,
      body,
      peer,
      form: {},
      cookie: {},
      userCtx: { db: name, name: userName, roles },
      secObj: JSON.parse(security),
    },
  ]);
}
