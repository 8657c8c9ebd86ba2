import { expect, test } from "vitest";
import { forEachDatabase } from "./reclaim-rounds.ts";

test("an error for one database is thrown after the work for all others is done", async () => {
  const done: string[] = [];
  const working = forEachDatabase(["a", "b", "c"], new AbortController().signal, async (name) => {
    if (name !== "b") done.push(name);
    else throw new Error("b is damaged");
  });
  await expect(working).rejects.toThrow("b is damaged");
  expect(done).toEqual(["a", "c"]);
});

test("work ends when the signal aborts", async () => {
  const stopping = new AbortController();
  const done: string[] = [];
  await forEachDatabase(["a", "b"], stopping.signal, async (name) => {
    done.push(name);
    stopping.abort();
  });
  expect(done).toEqual(["a"]);
});
