/**
 * Stored formats of replication jobs. A changed format requires a new number, and code that still
 * reads the old format.
 */
import { describe, expect, test } from "vitest";
import { parseReplication } from "../request/parse-replication.ts";
import { type JobProgress, newJobData, started } from "./job-data.ts";
import { decodeJob, encodeProgress, encodeRequest, requestToStore } from "./job-data-record.ts";

const REPLICATION = parseReplication({ source: "a", target: "b", continuous: true });
const DOCUMENT = { database: "_replicator", databaseUuid: "u", id: "d" };
const STATISTICS = {
  missingChecked: 1,
  missingFound: 2,
  docsRead: 3,
  docsWritten: 4,
  docWriteFailures: 5,
  docsLeftOut: 0,
  bulkGetAttempts: 6,
  bulkGetDocs: 7,
};
const FAILURE = { error: "econnrefused", reason: "connection refused" };
/** Format 1: one object, without a format number. */
const FLAT = {
  replication: REPLICATION,
  document: DOCUMENT,
  userName: "joe",
  replicationId: "id",
  state: "crashing",
  failure: FAILURE,
  errorCount: 2,
  stallCount: 1,
  statistics: STATISTICS,
  checkpointedSequence: "7-a",
  throughSequence: "8-a",
  sourceSequence: "9-a",
  changesPending: 4,
  history: [{ type: "added", timeMs: 5 }],
  addedTimeMs: 5,
  lastUpdatedMs: 8,
  lastStartMs: 6,
};
const flat = (change: object = {}) => ({ data: { ...FLAT, ...change }, request: undefined });

/** Returns the value as it would be read from the store. */
const stored = (value: object) => JSON.parse(JSON.stringify(value));

test("a job is stored as two objects, each with its format", () => {
  const asked = { replication: REPLICATION, refusal: undefined };
  const origin = { ...asked, document: DOCUMENT, userName: "joe", replicationId: undefined };
  const data = started(newJobData(origin, 5), { id: "id" }, { nowMs: 6, historyLengthMax: 20 });
  expect(stored(encodeRequest(data))).toEqual({
    format: 2,
    replication: stored(REPLICATION),
    document: DOCUMENT,
    userName: "joe",
    addedTimeMs: 5,
  });
  expect(stored(encodeProgress(data))).toEqual({
    format: 2,
    replicationId: "id",
    state: "pending",
    errorCount: 0,
    stallCount: 0,
    statistics: Object.fromEntries(Object.keys(STATISTICS).map((name) => [name, 0])),
    checkpointedSequence: 0,
    throughSequence: 0,
    sourceSequence: 0,
    history: [
      { type: "started", timeMs: 6 },
      { type: "added", timeMs: 5 },
    ],
    lastUpdatedMs: 6,
    lastStartMs: 6,
  });
});

describe("a job that an older version stored in one object", () => {
  test("is decoded correctly", () => {
    const decoded = decodeJob(flat());
    const still = { rates: { docsPerSec: 0, bytesPerSec: 0 }, waitsFor: undefined };
    const rest = { refusal: undefined, result: undefined, failing: decoded.failing, ...still };
    expect(decoded).toEqual({ ...FLAT, ...rest });
  });

  test("is split into two objects the next time it is written", () => {
    const data = decodeJob(flat());
    const request = requestToStore(flat(), data);
    expect(request).toEqual(encodeRequest(data));
    expect(requestToStore({ request }, data)).toBeUndefined();
    expect(decodeJob({ data: stored(encodeProgress(data)), request })).toEqual(data);
  });

  test("has default values for fields that its version did not store", () => {
    const { stallCount: _, ...older } = FLAT;
    const { failurePolicy: __, failureRetrySec: ___, ...options } = REPLICATION.options;
    const statistics = { ...STATISTICS, bulkGetAttempts: undefined };
    const { bulkGetAttempts: ____, ...fewer } = statistics;
    const data = { ...older, replication: { ...REPLICATION, options }, statistics: fewer };
    const decoded = decodeJob({ data, request: undefined });
    expect(decoded.stallCount).toBe(0);
    expect(decoded.replication).toEqual(REPLICATION);
    expect(decoded.statistics.bulkGetAttempts).toBe(0);
  });

  test("has been failing since its last run if that run failed", () => {
    expect(decodeJob(flat()).failing).toMatchObject({
      ...FAILURE,
      class: "other",
      sinceMs: 8,
      tries: 2,
    });
    const waiting = flat({ state: "pending", failure: undefined });
    expect(decodeJob(waiting).failing).toBeUndefined();
  });

  test("is pending if version 0.1 stored it as running", () => {
    const running = { state: "running", failure: undefined, node: "n", processId: "1" };
    expect(decodeJob(flat(running))).toMatchObject({ state: "pending", failure: undefined });
  });

  test("has the refusal that the older version stored as a failure", () => {
    const malformed = { replication: undefined, state: "pending", failure: FAILURE };
    const refused = { state: "pending", failure: undefined, refusal: FAILURE };
    expect(decodeJob(flat(malformed))).toMatchObject(refused);
    expect(decodeJob(flat({ ...malformed, failure: undefined })).refusal).toEqual({
      error: "error",
      reason: "malformed document",
    });
  });

  test.each<[JobProgress["state"], object]>([
    ["pending", { failure: undefined, result: undefined }],
    ["crashing", { failure: { error: "error", reason: "" }, result: undefined }],
    ["completed", { failure: undefined, result: {} }],
    ["failed", { failure: { error: "error", reason: "" }, result: undefined }],
  ])("has exactly the members of the outcome %s", (state, expected) => {
    const bare = decodeJob(flat({ state, failure: undefined }));
    expect(bare).toMatchObject({ state, ...expected });
    const full = decodeJob(flat({ state, failure: FAILURE, result: { ok: true } }));
    expect([full.failure === undefined, full.result === undefined]).toEqual([
      bare.failure === undefined,
      bare.result === undefined,
    ]);
  });
});

describe("a job of a newer version", () => {
  const data = decodeJob(flat());
  const current = { data: encodeProgress(data), request: encodeRequest(data) };
  const UNKNOWN = "A replication job must have a supported format version";

  test.each(["data", "request"] as const)(
    "cannot be decoded if its %s has an unknown format",
    (part) => {
      expect(decodeJob(current)).toEqual(data);
      const newer = { ...current, [part]: { ...current[part], format: 3 } };
      expect(() => decodeJob(newer)).toThrow(UNKNOWN);
    },
  );
});
