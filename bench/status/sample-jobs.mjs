/**
 * Sample jobs, defined by documents, for benchmarks of job lists. They have twenty owners, fifty
 * source hosts, and a thousand targets.
 */

import { DesignCodes } from "../../dist/documents/index.js";
import { SandboxPool } from "../../dist/host/index.js";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../dist/replicator/index.js";
import { failingAfter, NO_PLACE } from "../../dist/replicator/jobs/failing.js";
import { jobOutcome, newJobData } from "../../dist/replicator/jobs/job-data.js";
import { encodeProgress, encodeRequest } from "../../dist/replicator/jobs/job-data-record.js";
import { runtime } from "../kv/bench-store.mjs";

export const DATABASE_UUID = "0".repeat(32);
const PAGE_ROWS = 200;
const FAILING = 3;
const RUNNING = 20;
/** A due time so late that jobs wait indefinitely without being paused. */
export const FAR_SEC = 2 ** 35;

export const ids = {
  digests: runtime.digests,
  serverUuid: "0".repeat(32),
  hostName: "h",
  port: 1,
  serverUrl: "",
};

/** Required by the replicator; never called here. */
export const functions = {
  runtime,
  sandbox: new SandboxPool(runtime),
  timeoutMs: 5_000,
  codes: new DesignCodes(),
};

/** @param {Record<string, string>} [tags] */
export function dataOf(number, databaseUuid = DATABASE_UUID, tags = {}) {
  const source = `https://host${number % 50}.example/db${number}`;
  const members = { source, target: `t${number % 1000}`, continuous: true, tags };
  const replication = parseReplication(members);
  const id = `d${String(number).padStart(7, "0")}`;
  const document = { database: "_replicator", databaseUuid, id };
  const asked = { replication, refusal: undefined, userName: `user${number % 20}` };
  return newJobData({ ...asked, document, replicationId: `${number}`.padStart(32, "a") }, 1);
}

/** @param {Record<string, string>} [tags] */
export function add(tx, jobs, number, scheduledAtSec, databaseUuid = DATABASE_UUID, tags = {}) {
  const data = dataOf(number, databaseUuid, tags);
  const name = { type: REPLICATION_JOB_TYPE, id: `${databaseUuid}|${data.document.id}` };
  const options = { request: encodeRequest(data), group: "_replicator", scheduledAtSec };
  return jobs.add(tx, name, encodeProgress(data), options).then(() => name);
}

/**
 * Adds this many jobs: the first RUNNING of them are due if `isAnyDue`, the last `failingCount`
 * fail, and all others wait.
 *
 * @typedef {object} FillOptions
 * @property {string} [databaseUuid]
 * @property {boolean} [isAnyDue]
 * @property {number} [failingCount]
 * @property {(number: number) => Record<string, string>} [tagsOf]
 * @param {FillOptions} [options]
 */
export async function fill(kv, jobs, count, options = {}) {
  const { databaseUuid, isAnyDue = true, failingCount = FAILING, tagsOf = () => ({}) } = options;
  for (let from = 0; from < count; from += PAGE_ROWS) {
    await kv.transact(async (tx) => {
      for (let number = from; number < Math.min(count, from + PAGE_ROWS); number++) {
        const dueSec = isAnyDue && number < RUNNING ? 1 : FAR_SEC;
        const tags = tagsOf(number);
        const name = await add(tx, jobs, number, dueSec, databaseUuid, tags);
        if (number < count - failingCount) continue;
        /** @type {any} */
        const cause = { ...NO_PLACE, class: "unreachable" };
        const failure = { error: "http_request_failed", reason: "refused" };
        const failing = failingAfter(undefined, failure, cause, number);
        const data = {
          ...dataOf(number, databaseUuid, tags),
          ...jobOutcome("crashing", failure),
          failing,
        };
        await jobs.resubmit(tx, name, FAR_SEC, encodeProgress(data));
      }
    });
  }
}

/** Accepts the due jobs, without running them. */
export async function acceptDue(kv, jobs) {
  const wanted = { dueBySec: 1, countMax: RUNNING };
  const accepted = await kv.transact((tx) => jobs.accept(tx, REPLICATION_JOB_TYPE, wanted));
  return accepted.held;
}
