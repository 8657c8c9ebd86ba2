/** `/_tandem/jobs/{id}/failures`: the documents that a job left behind, and another try for them. */
import type { DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { ProtocolError } from "../protocol/index.ts";
import { isoTime, type JobEntry, type Replicator } from "../replicator/index.ts";
import { type Call, parameter } from "./call.ts";
import type { ApiResponse } from "./exchange.ts";
import { integerParameter } from "./query.ts";
import { json } from "./responses.ts";
import { defineRoute, type Route } from "./router.ts";

export interface FailuresParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly replicator: Replicator;
}

/** Rows of an answer, unless asked otherwise. */
const ROWS_DEFAULT = 1000;
const REPLICATOR_DATABASE = "_replicator";

export function failureRoutes(parts: FailuresParts): readonly Route[] {
  const path = "/_tandem/jobs/{id}/failures";
  return [
    defineRoute("GET", path, (call) => listFailures(parts, call)),
    defineRoute("GET", `${path}/_counts`, (call) => countFailures(parts, call)),
    defineRoute("POST", `${path}/_retry`, (call) => retryFailures(parts, call)),
  ];
}

async function listFailures(parts: FailuresParts, call: Call): Promise<ApiResponse> {
  const limit = integerParameter(call, "limit") ?? ROWS_DEFAULT;
  const skip = integerParameter(call, "skip") ?? 0;
  const job = await findJob(parts, call);
  const { failures } = parts.replicator;
  const listed = await failures.list(job, { skip, limit });
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
  });
}

async function countFailures(parts: FailuresParts, call: Call): Promise<ApiResponse> {
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

async function retryFailures(parts: FailuresParts, call: Call): Promise<ApiResponse> {
  const job = await findJob(parts, call);
  const { done, triedCount, leftCount } = await parts.replicator.failures.retry(
    job,
    call.request.signal,
  );
  return json(done ? 200 : 202, { ok: true, tried: triedCount, total_rows: leftCount });
}

/** `{id}` is a replication id, or `database/document` of a replication document. */
async function findJob(
  { kv, databases, replicator }: FailuresParts,
  call: Call,
): Promise<JobEntry> {
  const id = parameter(call, "id");
  // A plus that a client forgot to escape has become a space on its way.
  const entry = (await replicator.find(id.replaceAll(" ", "+"))) ?? (await replicator.find(id));
  if (entry !== undefined) return entry;
  const segments = id.split("/");
  const place = segments.indexOf(REPLICATOR_DATABASE);
  if (place >= 0 && place < segments.length - 1) {
    const name = segments.slice(0, place + 1).join("/");
    const { uuid } = await kv.read((tx) => databases.open(tx, name));
    const found = await replicator.findDocument(uuid, segments.slice(place + 1).join("/"));
    if (found !== undefined) return found;
  }
  throw new ProtocolError(404, "not_found", "missing");
}

function total(counts: readonly { readonly count: number }[]): number {
  return counts.reduce((sum, { count }) => sum + count, 0);
}
