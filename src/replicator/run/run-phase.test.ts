import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  isCheckpointed,
  isStartUnstored,
  PHASE_EVENTS,
  phaseAfter,
  RUN_PHASES,
} from "./run-phase.ts";

const PAGE = readFileSync(new URL("../../../docs/spec/replicator.md", import.meta.url), "utf8");

test("the table in the specification contains the phase after each event", () => {
  const rows = RUN_PHASES.map((phase) =>
    [phase, ...PHASE_EVENTS.map((event) => phaseAfter(phase, event))].join(" | "),
  );
  expect(PAGE).toContain(`| phase | ${PHASE_EVENTS.join(" | ")} |\n`);
  for (const row of rows) expect(PAGE).toContain(`| ${row} |\n`);
});

test.each(RUN_PHASES)(
  "events in the phase %s lose neither a stored start nor a checkpoint",
  (phase) => {
    for (const event of PHASE_EVENTS) {
      const after = phaseAfter(phase, event);
      if (isCheckpointed(phase)) expect(isCheckpointed(after)).toBe(true);
      if (phase.startsWith("running")) expect(after).toMatch(/^running/);
    }
    expect(isStartUnstored(phaseAfter(phase, "store"))).toBe(false);
  },
);

test("a run has no checkpoint before it has begun", () => {
  expect(phaseAfter("accepted", "checkpoint")).toBe("accepted");
  expect(RUN_PHASES.filter(isStartUnstored)).toEqual(["begun", "begun-checkpointed"]);
});
