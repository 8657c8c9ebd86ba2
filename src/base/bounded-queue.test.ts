import { expect, test } from "vitest";
import { BoundedQueue } from "./bounded-queue.ts";

test("a producer waits while the queue is full, by count or by weight", async () => {
  const queue = new BoundedQueue<string>({ itemCountMax: 2, weightMax: 10 });
  await queue.push("a", 9);
  let pushed = false;
  const pushing = queue.push("b", 5).then(() => {
    pushed = true;
  });
  await Promise.resolve();
  expect(pushed).toBe(false);
  expect(await queue.takeUpTo(5)).toEqual(["a"]);
  await pushing;
  expect(queue.length).toBe(1);
});

test("an empty queue accepts an item heavier than its bound", async () => {
  const queue = new BoundedQueue<string>({ itemCountMax: 2, weightMax: 10 });
  await queue.push("heavy", 1000);
  expect(await queue.takeUpTo(1)).toEqual(["heavy"]);
});

test("a closed queue returns its remaining items, then undefined", async () => {
  const queue = new BoundedQueue<number>({ itemCountMax: 10 });
  await queue.push(1);
  queue.close();
  expect(await queue.takeUpTo(1)).toEqual([1]);
  expect(await queue.takeUpTo(1)).toBeUndefined();
  await expect(queue.push(2)).rejects.toThrow("closed");
});

test("a failure rejects the calls of producers and consumers immediately", async () => {
  const queue = new BoundedQueue<number>({ itemCountMax: 1 });
  const taking = queue.takeUpTo(1);
  queue.fail(new Error("broken"));
  await expect(taking).rejects.toThrow("broken");
  await expect(queue.push(1)).rejects.toThrow("broken");
});

test("`onTaken` receives the items in queue order across all consumers", async () => {
  const queue = new BoundedQueue<number>({ itemCountMax: 100 });
  const order: number[] = [];
  const takers = Array.from({ length: 4 }, async () => {
    while ((await queue.takeUpTo(3, (items) => order.push(...items))) !== undefined);
  });
  for (let number = 0; number < 100; number++) await queue.push(number);
  queue.close();
  await Promise.all(takers);
  expect(order).toEqual([...Array(100).keys()]);
});
