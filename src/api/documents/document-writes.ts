/** Writes the edits contained in a request. */
import {
  type DocumentEdit,
  isDatabaseAdmin,
  type WriteContext,
  type WriteOutcome,
} from "../../databases/index.ts";
import {
  isWritten,
  type RefusedOutcome,
  transactValidated,
  writeEdits,
  writeRefusal,
} from "../../documents/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import { existingDatabaseName, writeContext } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { type ErrorAnswer, errorAnswer, isInvalidRequest } from "../http/error-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { json } from "../http/responses.ts";

/**
 * Statuses for writes rejected by hooks. All other errors of a validation function, including
 * compile errors, are 500 as in CouchDB.
 */
const REFUSAL_STATUSES: Readonly<Record<string, number>> = {
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  document_too_large: 413,
};
const DESIGN_REFUSAL_STATUSES: typeof REFUSAL_STATUSES = {
  ...REFUSAL_STATUSES,
  compilation_error: 400,
  invalid_design_doc: 400,
};

/** Number of attachments per document above which writing their rows takes milliseconds. */
const MANY_ATTACHMENTS = 500;

/** The result of an edit in wire form. */
export type EditResult =
  | { readonly kind: "written"; readonly id: string; readonly revision: string }
  | { readonly kind: "failed"; readonly id: string; readonly answer: ErrorAnswer };

/**
 * Writes one edit. Throws a ProtocolError for a conflict, a missing stub or a rejection by a hook.
 */
export async function writeOne(
  parts: DatabaseParts,
  call: Call,
  edit: DocumentEdit,
): Promise<{ readonly id: string; readonly revision: string }> {
  const context = contextOf(parts, call);
  // Yields first if parsing a long document has used up the time slice, because writing does not
  // yield.
  if (call.yielder.isDue) await call.yielder.yield();
  const result = resultOf((await transactEdits(parts, call, [edit], context))[0] as WriteOutcome);
  if (result.kind === "written") return result;
  const { status, error, reason } = result.answer;
  throw new ProtocolError(status, error, reason);
}

/** Whether the request has `batch=ok`. */
export function isBatch({ request }: Call): boolean {
  return request.query.get("batch") === "ok";
}

/**
 * The response to `batch=ok`. CouchDB sends it before writing, so the response has no revision and
 * reports no conflict. Here the response is sent after the write.
 */
export async function writeInBatch(
  id: string,
  write: () => Promise<unknown>,
): Promise<ApiResponse> {
  try {
    await write();
  } catch (error) {
    if (!(error instanceof ProtocolError && error.status === 409)) throw error;
  }
  return json(202, { ok: true, id });
}

/** Writes edits in order, with a result for each. */
export async function writeAll(
  parts: DatabaseParts,
  call: Call,
  edits: readonly DocumentEdit[],
): Promise<EditResult[]> {
  // Called outside `writeEdits`, because the errors of `contextOf` concern the whole request.
  const context = contextOf(parts, call);
  const results: EditResult[] = [];
  await writeEdits(edits, {
    transact: (batch) => transactEdits(parts, call, batch, context),
    yielder: call.yielder,
    // Only invalid documents are reported individually; all other errors concern the whole request.
    isRefusal: isInvalidRequest,
    settled: (_, outcome) => results.push(resultOf(outcome)),
    refused: ({ id }, error) => results.push({ kind: "failed", id, answer: errorAnswer(error) }),
    hasFollowUps: parts.databases.hasFollowUps(existingDatabaseName(call)),
  });
  return results;
}

function contextOf({ pausingOf }: DatabaseParts, call: Call): WriteContext {
  return { ...writeContext(call.user), ...pausingOf(call) };
}

async function transactEdits(
  parts: DatabaseParts,
  call: Call,
  edits: readonly DocumentEdit[],
  context: WriteContext,
): Promise<WriteOutcome[]> {
  // Writing a replicated revision is idempotent; a repeated user edit would conflict with its
  // first attempt.
  const isRepeatable = edits.every(({ mode }) => mode === "replicated");
  const { kv, databases, functions } = parts;
  const name = existingDatabaseName(call);
  const options = {
    signal: call.request.signal,
    whenUnknown: isRepeatable ? "retry" : undefined,
  } as const;
  const hashed = name === "_users" ? await parts.hashPasswords(edits) : edits;
  return transactValidated(kv, functions, options, async (tx, validation) => {
    const database = await databases.open(tx, name);
    // Hooks do not check local documents. Local documents of `_users` have no owner, so only
    // administrators may write them.
    const isLocalOfUsers = name === "_users" && edits.some(({ id }) => id.startsWith("_local/"));
    if (isLocalOfUsers && !isDatabaseAdmin(await database.security(tx), context)) {
      throw new ProtocolError(404, "not_found", "missing");
    }
    const outcomes = await database.writeMany(tx, hashed, { ...context, validation });
    // Yields first, because passing thousands of rows to the store takes milliseconds.
    if (hashed.some(({ attachments }) => attachments.length > MANY_ATTACHMENTS)) {
      await call.yielder.yield();
    }
    return outcomes;
  });
}

function resultOf(outcome: WriteOutcome): EditResult {
  const { id } = outcome;
  if (isWritten(outcome)) return { kind: "written", id, revision: outcome.revision };
  const { error, reason } = writeRefusal(outcome);
  return { kind: "failed", id, answer: { status: statusOf(outcome), error, reason } };
}

function statusOf(outcome: RefusedOutcome): number {
  switch (outcome.kind) {
    case "conflict":
      return 409;
    case "missing-stub":
      return 412;
    case "rejected": {
      const isDesign = outcome.id.startsWith("_design/");
      return (isDesign ? DESIGN_REFUSAL_STATUSES : REFUSAL_STATUSES)[outcome.error] ?? 500;
    }
  }
}
