import { expect, test } from "vitest";
import { REPLICATION_OPTIONS_DEFAULT } from "../../contract/index.ts";
import type { RevisionRequest } from "../endpoints/endpoint.ts";
import type { BatchOutcome } from "./batch-outcome.ts";
import type { BulkWriter } from "./bulk-writer.ts";
import { Governor } from "./governor.ts";
import { IsolatedCopyStage } from "./isolated-copy-stage.ts";

const MEBIBYTE = 1024 * 1024;
const NONE = {} as BulkWriter & BatchOutcome;

/**
 * Creates a stage between nearby servers. Documents have `textLength` characters, and are in
 * progress until `finish` is called.
 */
function openStage(textLength: number) {
  const underWay: (() => void)[] = [];
  const clock = { nowMs: () => 0, monotonicMs: () => 0, sleep: () => Promise.resolve() };
  const endpoint = { roundTripMs: 1 };
  const stage = new IsolatedCopyStage({
    stage: new Governor(clock, REPLICATION_OPTIONS_DEFAULT, false).isolated,
    source: endpoint,
    target: endpoint,
    copier: {
      copy: async (_request, _writer, _outcome, _signal, onText) => {
        onText(textLength);
        await new Promise<void>((resolve) => underWay.push(resolve));
      },
    },
  });
  const request: RevisionRequest = { id: "a", revision: "1-a", ancestors: [] };
  return {
    copy: (count: number): Promise<void> =>
      stage.copy(
        Array.from({ length: count }, () => request),
        NONE,
        NONE,
        new AbortController().signal,
      ),
    /**
     * Returns the number of documents in progress, after all documents that can start have started.
     */
    async count(): Promise<number> {
      await new Promise((resolve) => setImmediate(resolve));
      return underWay.length;
    },
    finish(): void {
      for (const end of underWay.splice(0)) end();
    },
  };
}

test("limits the number of individual copies in all batches to the allowed number of requests", async () => {
  const stage = openStage(500);
  const copying = Promise.all([stage.copy(15), stage.copy(15)]);
  expect(await stage.count()).toBe(20);
  stage.finish();
  expect(await stage.count()).toBe(10);
  stage.finish();
  await copying;
});

test("copies fewer documents concurrently once they are known to be long", async () => {
  const stage = openStage(8 * MEBIBYTE);
  const copying = stage.copy(28);
  expect(await stage.count()).toBe(20);
  for (const left of [4, 4]) {
    stage.finish();
    expect(await stage.count()).toBe(left);
  }
  stage.finish();
  await copying;
});
