/** Tests that job data survives encoding and decoding. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { FAILURE_CLASSES } from "../../contract/index.ts";
import { parseReplication } from "../request/parse-replication.ts";
import type { Failing } from "./failing.ts";
import {
  type Asked,
  type DirectionProgress,
  type JobProgress,
  type JobRequest,
  jobOutcome,
  type ReplicationJobData,
} from "./job-data.ts";
import { decodeIndexed, decodeJob, encodeProgress, encodeRequest } from "./job-data-record.ts";

const REPLICATION = parseReplication({ source: "http://host/a", target: "b" });

const text = fc.string({ unit: "binary" });
const count = fc.nat();
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const failure = fc.record({ error: text, reason: text });
const sequence = fc.oneof(count, text, fc.tuple(count, text));

const asked: fc.Arbitrary<Asked> = fc.oneof(
  fc.array(text).map((ids) => ({
    replication: { ...REPLICATION, selection: { kind: "doc-ids" as const, ids } },
    refusal: undefined,
  })),
  failure.map((refusal) => ({ replication: undefined, refusal })),
);

const request: fc.Arbitrary<JobRequest> = fc
  .tuple(
    asked,
    fc.record({
      document: maybe(fc.record({ database: text, databaseUuid: text, id: text })),
      userName: fc.option(text),
      vouched: maybe(fc.record({ by: text, roles: fc.array(text) })),
      addedTimeMs: count,
    }),
  )
  .map(([what, who]) => ({ ...what, ...who }));

const failing: fc.Arbitrary<Failing> = fc.record({
  sinceMs: count,
  lastMs: count,
  tries: count,
  class: fc.constantFrom(...FAILURE_CLASSES),
  error: text,
  reason: text,
  phase: maybe(fc.constantFrom("open", "write")),
  side: maybe(fc.constantFrom("source", "target")),
  host: maybe(text),
});

const outcome = fc
  .tuple(
    fc.constantFrom("pending", "crashing", "completed", "failed"),
    failure,
    fc.dictionary(text, fc.oneof(text, count), { noNullPrototype: true }),
  )
  .map((parts) => jobOutcome(...parts));

const statistics = fc.record({
  missingChecked: count,
  missingFound: count,
  docsRead: count,
  docsWritten: count,
  docWriteFailures: count,
  docsLeftOut: count,
  bulkGetAttempts: count,
  bulkGetDocs: count,
});

const event = fc.oneof(
  fc.record({ type: fc.constant("started" as const), timeMs: count }),
  fc.record({ type: fc.constant("crashed" as const), timeMs: count, reason: text }),
);

const direction: fc.Arbitrary<DirectionProgress> = fc.record({
  replicationId: maybe(text),
  statistics,
  checkpointedSequence: sequence,
  throughSequence: sequence,
  sourceSequence: sequence,
  startTimes: maybe(fc.record({ source: text, target: text })),
});

const progress: fc.Arbitrary<JobProgress> = fc
  .tuple(
    outcome,
    direction,
    fc.record({
      reverse: maybe(direction),
      errorCount: count,
      stallCount: count,
      changesPending: maybe(count),
      rates: fc.record({ docsPerSec: count, bytesPerSec: count }),
      waitsFor: maybe(fc.constantFrom("budget", "limiter")),
      history: fc.array(event),
      lastUpdatedMs: count,
      lastStartMs: count,
    }),
  )
  // After a failure, the job must be failing. After any other outcome, it can be failing or not.
  .chain(([ending, forward, figures]) =>
    (ending.failure === undefined ? maybe(failing) : failing).map((fails) => ({
      ...ending,
      ...forward,
      ...figures,
      failing: fails,
    })),
  );

const stored = (value: object) => JSON.parse(JSON.stringify(value));

test("decoding a job's record returns the encoded job", () => {
  fc.assert(
    fc.property(request, progress, (what, far) => {
      const data: ReplicationJobData = { ...what, ...far };
      const job = { data: stored(encodeProgress(data)), request: stored(encodeRequest(data)) };
      expect(decodeJob(job)).toEqual(data);
    }),
  );
});

test("`decodeIndexed` returns the same values as `decodeJob`", () => {
  fc.assert(
    fc.property(request, progress, (what, far) => {
      const data: ReplicationJobData = { ...what, ...far };
      const job = { data: stored(encodeProgress(data)), request: stored(encodeRequest(data)) };
      expect(data).toMatchObject(decodeIndexed(job));
    }),
  );
});
