/** Stores with many jobs, as a node would have written them. */
import { openLmdbEngine } from "../../dist/host/lmdb/engine.js";
import { KeyValueStore } from "../../dist/kv/index.js";
import { REPLICATOR_CONFIG_DEFAULT } from "../../dist/replicator/index.js";
import { JobEventLog } from "../../dist/replicator/job-log/job-event-log.js";
import { SUBSPACES } from "../../dist/server/layout.js";
import { joinNodeParts } from "../../dist/server/node-parts.js";
import { runtime } from "../kv/bench-store.mjs";
import { fill, functions, ids } from "./sample-jobs.mjs";

const BEHIND = 100;

/**
 * Configuration that keeps the jobs as they are. The sources of waiting jobs do not exist and must
 * not be polled, so the polling interval is longer than the time since 1970: a store that has not
 * polled yet counts as polled in 1970. Running jobs do not park when they are idle.
 */
export const CONFIGURATION = `[replicator]
lag_interval_sec = 10000000000
park_after_sec = 0
`;

/**
 * Returns the parts of a node on this store.
 *
 * @param {Partial<import("../../dist/server/node-parts.js").NodePartsOptions>} [options]
 */
export function openParts(kv, options) {
  return joinNodeParts({
    ...options,
    runtime,
    kv,
    ids,
    functions,
    config: REPLICATOR_CONFIG_DEFAULT,
    nodeName: "bench",
  });
}

/**
 * Adds this many jobs, of which three (or `failingCount`) fail and a hundred are behind. None runs.
 * Returns the end of the store's event log.
 *
 * @param {import("./sample-jobs.mjs").FillOptions} [options]
 */
export async function prepareStore(directory, count, options = {}) {
  const kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
  const node = openParts(kv);
  await node.replicator.prepare();
  const { uuid } = await kv.transact(async (tx) => {
    await node.databases.create(tx, "_replicator");
    return node.databases.open(tx, "_replicator");
  });
  await fill(kv, node.jobs, count, { ...options, databaseUuid: uuid, isAnyDue: false });
  await node.index.foldAll(kv);
  const { entries } = await node.replicator.lists.page({ filter: {}, limit: BEHIND });
  for (const [index, { jobId }] of entries.entries()) {
    const backlog = { sinceMs: Date.now() - index * 10_000, pending: index, seenMs: Date.now() };
    await kv.transact((tx) => node.backlogs.set(tx, jobId, backlog));
  }
  const events = new JobEventLog(runtime.clock, SUBSPACES.replicator);
  const lastEventId = await kv.read((tx) => events.lastId(tx));
  await kv.close();
  return lastEventId;
}
