/**
 * `POST /_tandem/replications/_check`: checks a replication document and reports its effects
 * without writing anything. CouchDB has no counterpart.
 */
import { type CheckedEndpoint, type CheckedReplication, QUERIES } from "../../contract/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import {
  type EndpointCheck,
  type JobEntry,
  jobName,
  type ReplicationChecks,
} from "../../replicator/index.ts";
import { authorizeInDatabase } from "../access/authorization.ts";
import { securitySubject } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { readBody, readLongDocument, requireJsonType } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { REPLICATING } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export interface CheckParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly checks: Pick<ReplicationChecks, "check">;
}

const DATABASE_DEFAULT = "_replicator";
/** Maximum size of the body, close to the limit for replication documents. */
const CHECKED_BYTES_MAX = 2_000_000;
/** Placeholder id of an unnamed document. No document is likely to have this id. */
const NO_ID = "(a replication that is checked)";

export function checkRoutes(parts: CheckParts): readonly Route[] {
  return [
    defineRoute("POST", "/_tandem/replications/_check", REPLICATING, (call) => check(parts, call)),
  ];
}

async function check(parts: CheckParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  const document = await readLongDocument(
    call,
    await readBody(call, "question", CHECKED_BYTES_MAX),
    "unique",
  );
  const { database = DATABASE_DEFAULT } = readQuery(
    call,
    QUERIES["POST /_tandem/replications/_check"],
  );
  await authorizeInDatabase(parts, database, call.user, "database-member");
  const { id = NO_ID, revision, body } = document;
  const checked = await parts.checks.check(
    database,
    { mode: "interactive", id, parent: revision, deleted: false, body, attachments: [] },
    securitySubject(call.user),
    call.request.signal,
  );
  const { refusal, faults, isNameTaken, source, target, twin } = checked;
  const isFine = [source, target].every((side) => side !== undefined && side.kind !== "failed");
  return json(200, {
    ok: refusal === undefined && isFine && twin === undefined,
    error: refusal?.error ?? null,
    reason: refusal?.reason ?? null,
    faults,
    name_taken: isNameTaken,
    source: endpointView(source),
    target: endpointView(target),
    job: twin === undefined ? null : twinView(twin),
  } satisfies CheckedReplication);
}

function endpointView(checked: EndpointCheck | undefined): CheckedEndpoint | null {
  if (checked === undefined) return null;
  const isFailed = checked.kind === "failed";
  return {
    state: checked.kind,
    changes: checked.kind === "open" ? (checked.changes ?? null) : null,
    class: isFailed ? checked.class : null,
    error: isFailed ? checked.failure.error : null,
    reason: isFailed ? checked.failure.reason : null,
  };
}

function twinView({ jobId, state, data }: JobEntry) {
  const { document, replicationId } = data;
  return {
    id: replicationId ?? jobId,
    name: jobName(jobId, data),
    database: document?.database ?? null,
    doc_id: document?.id ?? null,
    state,
  };
}
