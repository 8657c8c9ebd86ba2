import { expect, test } from "vitest";
import { Notifier } from "../../base/index.ts";
import { CaughtUp } from "./caught-up.ts";

test("a failed request for the number of pending changes does not mean caught up, and is repeated", async () => {
  const changed = new Notifier();
  /** For each request, whether the run counted as caught up before it. */
  const before: boolean[] = [];
  const source = {
    pendingChangeCount: async () => {
      before.push(caughtUp.isCaughtUp);
      if (before.length === 1) throw new Error("unreachable");
      return 0;
    },
  };
  const caughtUp: CaughtUp = new CaughtUp({
    clock: { sleep: async () => {} },
    run: { hasBegun: true, hasWork: false, quietSinceMs: 0, progress: {} },
    source,
    isNeeded: () => true,
    onChange: () => changed.notify(),
  } as never);
  await caughtUp.during(async () => {
    caughtUp.look();
    await changed.notified(new AbortController().signal);
  });
  expect(before).toEqual([false, false]);
  expect(caughtUp.isCaughtUp).toBe(true);
});
