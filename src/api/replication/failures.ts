/** `/_tandem/jobs/{id}/failures`: the documents that a job failed to copy, and their retry. */
import { type FailurePage, QUERIES } from "../../contract/index.ts";
import { badRequest } from "../../protocol/index.ts";
import { fitsRetryRequest, isoTime, RETRY_IDS_MAX } from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { readOnlyMember } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type FindJobParts, findJob } from "./find-job.ts";

export function failureRoutes(parts: FindJobParts): readonly Route[] {
  const path = "/_tandem/jobs/{id}/failures";
  return [
    defineRoute("GET", path, OPERATIONS, (call) => listFailures(parts, call)),
    defineRoute("GET", `${path}/_counts`, OPERATIONS, (call) => countFailures(parts, call)),
    defineRoute("POST", `${path}/_retry`, OPERATIONS, (call) => retryFailures(parts, call)),
  ];
}

async function listFailures(parts: FindJobParts, call: Call): Promise<ApiResponse> {
  const page = readQuery(call, QUERIES["GET /_tandem/jobs/{id}/failures"]);
  const job = await findJob(parts, call);
  const { failures } = parts.replicator;
  const listed = await failures.list(job, page);
  return json(200, {
    total_rows: total(await failures.counts(job)),
    failures: listed.map(
      ({ id, revision, phase, status, error, reason, firstMs, lastMs, tries }) => ({
        id,
        rev: revision,
        phase,
        status: status ?? null,
        reason: reason === "" ? error : `${error}: ${reason}`,
        first: isoTime(firstMs),
        last: isoTime(lastMs),
        tries,
      }),
    ),
  } satisfies FailurePage);
}

async function countFailures(parts: FindJobParts, call: Call): Promise<ApiResponse> {
  const counts = await parts.replicator.failures.counts(await findJob(parts, call));
  return json(200, {
    total_rows: total(counts),
    counts: counts.map(({ phase, status, error, count }) => ({
      phase,
      status: status === 0 ? null : status,
      error,
      count,
    })),
  });
}

async function retryFailures(parts: FindJobParts, call: Call): Promise<ApiResponse> {
  const ids = await readIds(call);
  const job = await findJob(parts, call);
  const { done, triedCount, leftCount } = await parts.replicator.failures.retry(
    job,
    ids,
    call.request.signal,
  );
  return json(done ? 200 : 202, { ok: true, tried: triedCount, total_rows: leftCount });
}

/**
 * Returns the document ids in the body, or `undefined` for all documents. A missing body also
 * selects all documents.
 */
async function readIds(call: Call): Promise<readonly string[] | undefined> {
  const ids = await readOnlyMember(call, "ids");
  if (ids === undefined) return undefined;
  if (!Array.isArray(ids) || !ids.every((id) => typeof id === "string") || !fitsRetryRequest(ids)) {
    throw badRequest(`ids: expected a list of up to ${RETRY_IDS_MAX} document ids`);
  }
  return ids;
}

function total(counts: readonly { readonly count: number }[]): number {
  return counts.reduce((sum, { count }) => sum + count, 0);
}
