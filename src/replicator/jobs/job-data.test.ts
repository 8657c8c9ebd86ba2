import { expect, test } from "vitest";
import { type JobEvent, withEvents } from "./job-data.ts";

const event = (type: JobEvent["type"], timeMs: number): JobEvent => ({ type, timeMs });

test("a history begins with what came last, and forgets what came first", () => {
  const added = [event("added", 1)];
  const started = withEvents(added, [event("started", 2)], 3);
  expect(started.map(({ type }) => type)).toEqual(["started", "added"]);
  const stopped = withEvents(started, [event("stopped", 3), event("pending", 3)], 3);
  expect(stopped.map(({ type }) => type)).toEqual(["pending", "stopped", "started"]);
});
