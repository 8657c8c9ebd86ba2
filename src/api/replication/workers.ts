/**
 * `/_tandem/workers`: the workers that run replications, and their jobs. CouchDB has no
 * counterpart; `_membership` lists only nodes.
 */
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../../replicator/index.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export interface WorkersParts {
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

export function workersRoutes(parts: WorkersParts): readonly Route[] {
  return [defineRoute("GET", "/_tandem/workers", OPERATIONS, () => listWorkers(parts))];
}

async function listWorkers({ kv, jobs }: WorkersParts): Promise<ApiResponse> {
  const { workers, expelled } = await kv.read(async (tx) => {
    const members = await jobs.workers.members(tx, REPLICATION_JOB_TYPE);
    return {
      workers: await Promise.all(
        members.map(async ({ id, node, processId, types, sinceMs, leaseMs }) => {
          const lease = await jobs.workers.lease(tx, id);
          return {
            id,
            node,
            pid: processId,
            types,
            since: timeText(sinceMs),
            last_sign_of_life: timeText(lease?.renewedAtMs ?? sinceMs),
            lease_sec: leaseMs / 1000,
            jobs: await jobs.heldCount(tx, id),
          };
        }),
      ),
      expelled: await jobs.workers.expelled(tx),
    };
  });
  return json(200, { total_rows: workers.length, workers, expelled });
}

function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
