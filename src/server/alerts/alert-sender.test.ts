import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import { AlertSender, type AlertSenderParts } from "./alert-sender.ts";

test("a new sender compares the jobs with all limits, and then only their lags", async () => {
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
    compareLags: async () => void steps.push("lags"),
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
