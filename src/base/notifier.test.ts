import { expect, test } from "vitest";
import { Notifier } from "./notifier.ts";

const FOREVER = new AbortController().signal;

test("a notification ends the wait, and earlier notifications end the next wait immediately", async () => {
  const notifier = new Notifier();
  const waiting = notifier.notified(FOREVER);
  notifier.notify();
  await waiting;
  notifier.notify();
  notifier.notify();
  await notifier.notified(FOREVER);
  await expect(notifier.notified(AbortSignal.abort(new Error("nothing")))).rejects.toThrow(
    "nothing",
  );
});

test("an event after an aborted wait is not lost", async () => {
  const notifier = new Notifier();
  const over = new AbortController();
  const waiting = notifier.notified(over.signal);
  over.abort(new Error("given up"));
  await expect(waiting).rejects.toThrow("given up");
  notifier.notify();
  await notifier.notified(FOREVER);
});
