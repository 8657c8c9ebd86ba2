import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import type { Alert } from "../../replicator/index.ts";
import { AlertSender, type AlertSenderParts } from "./alert-sender.ts";

test("while the receiver fails, only test alerts are sent", async () => {
  const stop = new AbortController();
  const cause = { class: undefined, side: undefined, host: undefined, rule: undefined, tags: [] };
  const alert = (kind: Alert["kind"]): Alert => ({
    ...{ id: kind, kind, status: "firing", breachId: kind, jobId: "", timeMs: 0, sinceMs: 0 },
    cause,
  });
  const held: unknown[] = [];
  const failures: string[] = [];
  const watch = {
    takeTurn: async () => "held",
    follow: async () => "all",
    compareAll: async () => {},
    compareSilent: async () => {},
    nextGroup: async (isHeld: (alert: Alert) => boolean) => {
      held.push([isHeld(alert("failing")), isHeld(alert("test"))]);
      if (held.length === 1) return [{ key: new Uint8Array(), alert: alert("failing") }];
      stop.abort();
      return [];
    },
    failed: async (_group: unknown, error: string) => void failures.push(error),
    leaveTurn: async () => {},
  };
  const runtime = createSystemRuntime();
  const sender = new AlertSender({
    runtime: { ...runtime, clock: { ...runtime.clock, nowMs: () => 0, monotonicMs: () => 1 } },
    watch,
    settings: { url: "http://receiver", kinds: [], lagSec: 1, timeoutSec: 1, format: "tandem" },
    jobs: { replicator: { lists: { byId: async () => new Map() } } },
    fetch: async () => ({ status: 500, discard: () => {} }),
  } as unknown as AlertSenderParts);
  await sender.run(stop.signal);
  expect(held).toEqual([
    [false, false],
    [true, false],
  ]);
  expect(failures).toEqual(["HTTP status 500"]);
});

test("a node that becomes the sender checks all limits once, and then only lags and rules", async () => {
  const stop = new AbortController();
  const steps: string[] = [];
  const turns = ["taken", "held", "others", "taken", "held"];
  const watch = {
    takeTurn: async () => {
      const turn = turns.shift() ?? "others";
      steps.push(turn);
      return turn;
    },
    follow: async () => "done",
    compareAll: async () => void steps.push("all"),
    compareSilent: async () => void steps.push("lags"),
    nextGroup: async () => [],
    leaveTurn: async () => {},
  };
  let nowMs = 0;
  const sleep = async (): Promise<void> => {
    nowMs += 10_000;
    if (turns.length === 0) stop.abort();
  };
  const runtime = createSystemRuntime();
  const sender = new AlertSender({
    runtime: { ...runtime, clock: { ...runtime.clock, monotonicMs: () => nowMs, sleep } },
    watch,
    settings: { url: "http://receiver", kinds: [], lagSec: 1, timeoutSec: 1 },
  } as unknown as AlertSenderParts);
  await sender.run(stop.signal);
  expect(steps).toEqual(["taken", "all", "held", "lags", "others", "taken", "all", "held", "lags"]);
});
