import { EventEmitter, once } from "node:events";
import { expect, test } from "vitest";
import { askUntil, Patience } from "./patience.ts";

const never = new Promise<never>(() => {});

test("a wait in which nothing happens ends, and names all that is waited for", async () => {
  const patience = new Patience({ tickMs: 1, silentTicksMax: 20 });
  const waits = [patience.until("a document", never), patience.until("an event", never)];
  const outcomes = await Promise.allSettled(waits);
  const message = expect.stringMatching(/for 20 ticks .* waits for a document, an event$/);
  expect(outcomes).toEqual([
    { status: "rejected", reason: expect.objectContaining({ message }) },
    { status: "rejected", reason: expect.objectContaining({ message }) },
  ]);
});

test("a wait in which something happens goes on, longer than silence may last", async () => {
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

test("a question that is asked in a circle ends with the last answer", async () => {
  let last = -1;
  const ask = async (): Promise<number> => {
    last += 2;
    return last;
  };
  const options = { ask, passes: (answer: number) => answer % 2 === 0 };
  const asking = askUntil("an even number", { ...options, changed: () => async () => {} }, 10);
  await expect(asking).rejects.toThrow("Asked 10 times for an even number; the last answer is 21");
});
