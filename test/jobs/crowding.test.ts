/**
 * The number of rows that an acceptor reads, and its pauses, depend on the estimated number of
 * other acceptors.
 */
import { expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Crowding } from "../../src/jobs/crowding.ts";
import type { Transaction } from "../../src/kv/index.ts";

/** A transaction of which only the outcome matters. */
class Choice {
  readonly #effects: (() => void)[] = [];
  readonly transaction = {
    afterCommit: (effect: () => void) => this.#effects.push(effect),
  } as unknown as Transaction;

  commit(): void {
    for (const effect of this.#effects) effect();
  }
}

function choose(crowding: Crowding): Choice {
  const choice = new Choice();
  crowding.note(choice.transaction);
  return choice;
}

test("a sole acceptor reads only what it accepts", () => {
  const crowding = new Crowding();
  for (let count = 0; count < 10; count++) {
    expect(crowding.rowCount(16)).toBe(16);
    choose(crowding).commit();
  }
});

test("an overtaken acceptor chooses among more rows, and among fewer again once its choices succeed", () => {
  const crowding = new Crowding();
  choose(crowding);
  const crowded = crowding.rowCount(16);
  expect(crowded).toBeGreaterThan(32);
  choose(crowding);
  expect(crowding.rowCount(16)).toBeGreaterThan(crowded);
  for (let count = 0; count < 100; count++) choose(crowding).commit();
  expect(crowding.rowCount(16)).toBe(16);
});

test("a sole acceptor proceeds immediately, and an overtaken one leaves a moment to others", () => {
  const crowding = new Crowding();
  const random = { ...createSystemRuntime().random, ratio: () => 0.5 };
  choose(crowding).commit();
  expect(crowding.standBackMs(random)).toBe(0);
  choose(crowding);
  const once = crowding.standBackMs(random);
  expect(once).toBeGreaterThan(0);
  for (let count = 0; count < 100; count++) choose(crowding);
  expect(crowding.standBackMs(random)).toBeGreaterThan(once);
  expect(crowding.standBackMs(random)).toBeLessThan(200);
  for (let count = 0; count < 200; count++) choose(crowding).commit();
  expect(crowding.standBackMs(random)).toBeLessThan(0.1);
});

test("reads at most 1024 rows, but always two batches when there are others", () => {
  const crowding = new Crowding();
  for (let count = 0; count < 100; count++) choose(crowding);
  expect(crowding.rowCount(16)).toBeLessThanOrEqual(1024);
  expect(crowding.rowCount(1000)).toBe(2000);
});
