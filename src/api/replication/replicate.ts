/** `POST /_replicate`: transient replications (`couch_replicator_httpd`). */
import { errorCode, parseYielding, Utf8Text } from "../../base/index.ts";
import { authorityOf } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  adminOnlyRefusal,
  parseReplication,
  type ReplicationFailure,
  type Replicator,
  type Requester,
  statusOfFailure,
  withExactMembers,
  withStoredSecrets,
} from "../../replicator/index.ts";
import { securitySubject } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import { comeBack } from "../http/error-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readJsonBody, requireJsonType } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { REPLICATING } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** A schedule is rejected because the client waits until the run has ended. */
const NO_SCHEDULE =
  "`schedule` is only supported in documents of a _replicator database: POST /_replicate runs a replication immediately";

export function replicateRoutes(replicator: Replicator): readonly Route[] {
  return [defineRoute("POST", "/_replicate", REPLICATING, (call) => replicate(replicator, call))];
}

async function replicate(replicator: Replicator, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  const text = await readJsonBody(call);
  const members = await parseYielding(text, call.yielder);
  if (typeof members !== "object" || members === null || Array.isArray(members)) {
    throw badRequest("Request body must be a JSON object");
  }
  const body = withExactMembers(members as Readonly<Record<string, unknown>>, text);
  const { user, requestId } = call;
  const requester = { ...authorityOf(securitySubject(user)), isAdmin: user.isAdmin, requestId };
  const { cancel = false } = body;
  if (typeof cancel !== "boolean") throw badRequest("parameter `cancel` must be a boolean");
  if (cancel) return cancelJob(replicator, body, requester);
  const masked = withStoredSecrets(Utf8Text.of(text), undefined);
  if (masked.kind === "refused") throw new ProtocolError(403, "forbidden", masked.reason);
  const replication = parseReplication(body, replicator.config);
  if (replication.schedule !== undefined) throw badRequest(NO_SCHEDULE);
  const refusal = requester.isAdmin ? undefined : adminOnlyRefusal(replication);
  if (refusal !== undefined) throw new ProtocolError(403, "forbidden", refusal);
  if (call.yielder.isDue) await call.yielder.yield();
  const jobId = await replicator.start(replication, requester);
  try {
    return await settled(replicator, { jobId, isContinuous: replication.continuous }, call);
  } catch (error) {
    if (errorCode(error) !== "API_SERVER_STOPPING") throw error;
    return goesOn(replicator, jobId);
  }
}

/**
 * Waits until a continuous job has started, or a one-shot job has ended. The response contains the
 * job id, so that the job can be found later.
 */
async function settled(
  replicator: Replicator,
  { jobId, isContinuous }: { readonly jobId: string; readonly isContinuous: boolean },
  { request: { signal } }: Call,
): Promise<ApiResponse> {
  if (isContinuous) {
    const started = await replicator.started(jobId, signal);
    if (typeof started !== "string") return failed(started, await shownId(replicator, jobId));
    return json(202, { ok: true, _local_id: started });
  }
  const outcome = await replicator.ended(jobId, signal);
  const id = await shownId(replicator, jobId);
  if (outcome.kind === "completed") {
    return json(200, { ok: true, ...outcome.result, _local_id: id });
  }
  if (outcome.kind === "failed") return failed(outcome.failure, id);
  throw new ProtocolError(404, "not_found", "The replication was cancelled");
}

/**
 * Returns the response of a stopping node. The job stays in the queue; a repeated request waits for
 * this job.
 */
async function goesOn(replicator: Replicator, jobId: string): Promise<ApiResponse> {
  return comeBack({
    error: "service_unavailable",
    reason:
      "The node is stopping; the replication continues. Repeat the request, or check the state at /_scheduler/jobs/{_local_id}",
    _local_id: await shownId(replicator, jobId),
  });
}

/** The replication id or, until it is known, the job id. `_scheduler/jobs/{id}` accepts both. */
async function shownId(replicator: Replicator, jobId: string): Promise<string> {
  const entry = await replicator.find(jobId);
  return entry?.data.replicationId ?? jobId;
}

async function cancelJob(
  replicator: Replicator,
  body: Readonly<Record<string, unknown>>,
  requester: Requester,
): Promise<ApiResponse> {
  const named = body.replication_id ?? body._local_id ?? body.id;
  // A plus that the client failed to escape was decoded as a space.
  const id =
    typeof named === "string"
      ? named.replaceAll(" ", "+")
      : replicator.transientId(parseReplication(body, replicator.config), requester);
  const cancelled = await replicator.cancel(id, requester);
  if (cancelled === undefined) throw new ProtocolError(404, "not_found", "missing");
  return json(200, { ok: true, _local_id: cancelled });
}

function failed({ error, reason }: ReplicationFailure, id: string): ApiResponse {
  const shownError = error === "filter_fetch_error" ? "not_found" : error;
  return json(statusOfFailure(error), { error: shownError, reason, _local_id: id });
}
