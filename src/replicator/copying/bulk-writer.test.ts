import { expect, test } from "vitest";
import { SecretsInUse } from "../../http-client/index.ts";
import {
  type Endpoint,
  EndpointError,
  type EndpointWriter,
  TextDocument,
} from "../endpoints/endpoint.ts";
import { MemoryRunFailures } from "../failures/run-failures.ts";
import { BatchOutcome } from "./batch-outcome.ts";
import { BulkWriter } from "./bulk-writer.ts";
import { FailureAttribution } from "./failure-attribution.ts";

const { signal } = new AbortController();
const BROKEN = { status: 500, error: "internal_server_error", reason: "badmatch" };

/**
 * Creates a target. Batches that contain a guilty document fail. After `breakDown`, all requests
 * fail.
 */
function openTarget(isGuilty: (id: string) => boolean) {
  const writes: string[][] = [];
  const asked: (boolean | undefined)[] = [];
  let isDown = false;
  const fail = (): never => {
    throw new EndpointError("bulk_docs_failed", "500", { answer: BROKEN });
  };
  const target = {
    writeDocuments: async (documents, _, options) => {
      const ids = documents.map(({ id }) => id);
      writes.push(ids);
      asked.push(options?.once);
      return isDown || ids.some(isGuilty) ? fail() : [];
    },
    readLocal: async () => (isDown ? fail() : undefined),
    writeLocal: async () => "0-1",
  } as Partial<Endpoint & EndpointWriter> as Endpoint & EndpointWriter;
  const log = new MemoryRunFailures();
  const secrets = new SecretsInUse();
  const outcome = new BatchOutcome({ failures: log, secrets });
  const counted = { docsWritten: 0, docWriteFailures: 0 };
  const observer = {
    failures: log,
    secrets,
    count({ docsWritten = 0, docWriteFailures = 0 }) {
      counted.docsWritten += docsWritten;
      counted.docWriteFailures += docWriteFailures;
    },
  };
  const writer = new BulkWriter(
    { target, attribution: FailureAttribution.ofTarget(target) },
    observer,
    outcome,
  );
  return {
    writes,
    asked,
    counted,
    outcome,
    breakDown: () => {
      isDown = true;
    },
    async write(ids: readonly string[]): Promise<void> {
      for (const id of ids) {
        await writer.add(new TextDocument(id, `{"_id":"${id}","_rev":"1-a"}`), signal);
      }
      await writer.flush(signal);
    },
  };
}

test("writes both halves of a failed batch before it skips documents", async () => {
  const { write, outcome, counted } = openTarget((id) => id.startsWith("bad"));
  // Eight documents fail, more than a run is allowed to skip before its first success.
  const guilty = Array.from({ length: 8 }, (_, index) => `bad${index}`);
  await write([...guilty, ...Array.from({ length: 8 }, (_, index) => `good${index}`)]);
  expect(outcome.failures.map(({ id }) => id)).toEqual(guilty);
  expect(outcome.failures[0]).toEqual({ id: "bad0", revision: "1-a", phase: "write", ...BROKEN });
  expect(counted).toEqual({ docsWritten: 8, docWriteFailures: 8 });
});

test("writes each half of a failed batch only once, but retries a single document that fails", async () => {
  const { write, writes, asked } = openTarget((id) => id === "bad");
  await write(["a", "bad", "c"]);
  expect(writes).toEqual([["a", "bad", "c"], ["a", "bad"], ["c"], ["a"], ["bad"], ["bad"]]);
  expect(asked).toEqual([undefined, true, true, true, true, undefined]);
});

test("does not bisect a batch if the target also fails a control request", async () => {
  const { write, writes, breakDown } = openTarget(() => false);
  breakDown();
  await expect(write(["a", "b"])).rejects.toMatchObject({ error: "bulk_docs_failed" });
  expect(writes).toHaveLength(1);
});
