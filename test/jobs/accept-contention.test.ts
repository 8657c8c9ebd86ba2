/**
 * Number of rows that an acceptor reads and length of its pauses, depending on the estimated
 * number of other acceptors.
 */
import { expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { AcceptContention } from "../../src/jobs/accept-contention.ts";
import type { Transaction } from "../../src/kv/index.ts";

/** A fake transaction. It counts as conflicted unless `commit` is called. */
class Choice {
  readonly #effects: (() => void)[] = [];
  readonly transaction = {
    afterCommit: (effect: () => void) => this.#effects.push(effect),
  } as unknown as Transaction;

  commit(): void {
    for (const effect of this.#effects) effect();
  }
}

function choose(contention: AcceptContention): Choice {
  const choice = new Choice();
  contention.note(choice.transaction);
  return choice;
}

test("a sole acceptor reads one row for each job that it accepts", () => {
  const contention = new AcceptContention();
  for (let count = 0; count < 10; count++) {
    expect(contention.rowCount(16)).toBe(16);
    choose(contention).commit();
  }
});

test("an acceptor reads more rows after conflicts, and fewer rows again after its transactions commit", () => {
  const contention = new AcceptContention();
  choose(contention);
  const crowded = contention.rowCount(16);
  expect(crowded).toBeGreaterThan(32);
  choose(contention);
  expect(contention.rowCount(16)).toBeGreaterThan(crowded);
  for (let count = 0; count < 100; count++) choose(contention).commit();
  expect(contention.rowCount(16)).toBe(16);
});

test("a sole acceptor proceeds immediately, and an acceptor pauses briefly after a conflict", () => {
  const contention = new AcceptContention();
  const random = { ...createSystemRuntime().random, ratio: () => 0.5 };
  choose(contention).commit();
  expect(contention.acceptDelayMs(random)).toBe(0);
  choose(contention);
  const once = contention.acceptDelayMs(random);
  expect(once).toBeGreaterThan(0);
  for (let count = 0; count < 100; count++) choose(contention);
  expect(contention.acceptDelayMs(random)).toBeGreaterThan(once);
  expect(contention.acceptDelayMs(random)).toBeLessThan(200);
  for (let count = 0; count < 200; count++) choose(contention).commit();
  expect(contention.acceptDelayMs(random)).toBeLessThan(0.1);
});

test("an acceptor with competitors reads at most 1024 rows, or two batches if that is more", () => {
  const contention = new AcceptContention();
  for (let count = 0; count < 100; count++) choose(contention);
  expect(contention.rowCount(16)).toBeLessThanOrEqual(1024);
  expect(contention.rowCount(1000)).toBe(2000);
});
