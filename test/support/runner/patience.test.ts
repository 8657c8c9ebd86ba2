import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { askUntil, Patience } from "./patience.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const never = new Promise<never>(() => {});

test("a wait without activity ends with an error that names everything for which the test waits", async () => {
  const patience = new Patience({ tickMs: 1, silentTicksMax: 20 });
  const waits = [patience.until("a document", never), patience.until("an event", never)];
  const outcomes = await Promise.allSettled(waits);
  const message = expect.stringMatching(/for 20 ticks .* waits for a document, an event$/);
  expect(outcomes).toEqual([
    { status: "rejected", reason: expect.objectContaining({ message }) },
    { status: "rejected", reason: expect.objectContaining({ message }) },
  ]);
});

test("a wait with activity may last longer than the limit for silence", async () => {
  const patience = new Patience({ tickMs: 1, silentTicksMax: 20 });
  const ticks = new EventEmitter();
  const beat = setInterval(() => ticks.emit("tick"), 1);
  let isOver = false;
  const waiting = patience.until("an end", never).finally(() => {
    isOver = true;
  });
  for (let count = 0; count < 60; count++) {
    patience.heard();
    await once(ticks, "tick");
  }
  expect(isOver).toBe(false);
  await expect(waiting).rejects.toThrow("an end");
  clearInterval(beat);
});

test("a wait that lasts too long ends with an error that lists everything the test waits for, even with constant activity", async () => {
  const patience = new Patience({ tickMs: 1, silentTicksMax: 20, ticksMax: 40 });
  const beat = setInterval(() => patience.heard(), 1);
  const whole = patience.until("a test", never, 80);
  await expect(patience.until(() => "an event", never)).rejects.toThrow(
    "Not over after 40 ticks of this process, which waits for a test, an event",
  );
  await expect(whole).rejects.toThrow("Not over after 80 ticks");
  clearInterval(beat);
});

test("a poll that never succeeds ends with an error that contains the last response", async () => {
  let last = -1;
  const ask = async (): Promise<number> => {
    last += 2;
    return last;
  };
  const options = { ask, passes: (answer: number) => answer % 2 === 0 };
  const asking = askUntil("an even number", { ...options, changed: () => async () => {} }, 10);
  await expect(asking).rejects.toThrow("Asked 10 times for an even number; the last answer is 21");
});

test("hooks and tests that wait in vain time out, and the error names what they wait for", async () => {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const config = join(ROOT, "test/support/runner/hanging.config.ts");
  const env = { ...process.env, TEST_PATIENCE: "0.01", VITEST_POOL_ID: undefined };
  const child = spawn(process.execPath, [vitest, "run", "--config", config], { env, cwd: ROOT });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += chunk;
    });
  }
  const [code] = await once(child, "close");
  expect(code).toBe(1);
  for (const what of [
    'beforeAll of "a hanging beforeAll hook"',
    'afterAll of "a hanging afterAll hook"',
    'beforeEach of "a hanging beforeEach hook"',
    'the test "never ends"',
    'an answer; the last answer is 7, the test "polls indefinitely"',
    'onTestFinished of "has a cleanup that never ends"',
  ]) {
    expect(output).toContain(`which waits for ${what}`);
  }
});
