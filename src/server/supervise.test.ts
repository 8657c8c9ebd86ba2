import { expect, test } from "vitest";
import { createSystemRuntime } from "../host/index.ts";
import { supervise } from "./supervise.ts";

test("a failure that was already reported is not traced", async () => {
  const reported: unknown[] = [];
  const system = createSystemRuntime({ event: (_, fields) => void reported.push(fields) });
  const runtime = { ...system, clock: { ...system.clock, sleep: async () => {} } };
  const errors = [new Error("known"), new Error("known"), new Error("new"), new Error("known")];
  const stopping = new AbortController();
  const service = {
    name: "test",
    run: async () => {
      const error = errors.shift();
      if (error !== undefined) throw error;
      stopping.abort();
    },
  };
  await supervise(runtime, [service], stopping.signal, (error) => String(error).endsWith("known"));
  expect(reported).toEqual([{ service: "test", error: "Error: new", pauseMs: 400 }]);
});
