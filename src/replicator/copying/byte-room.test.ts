import { expect, test } from "vitest";
import { ByteRoom } from "./byte-room.ts";

/** Creates a byte budget, and records the names of its reservations in the order of admission. */
function opened(byteCountMax: number) {
  const room = new ByteRoom(byteCountMax);
  const admitted: string[] = [];
  const take = async (name: string, byteCount: number) => {
    const held = await room.take(byteCount);
    admitted.push(name);
    return held;
  };
  return { admitted, take };
}

test("a reservation that exceeds the remaining bytes waits, and so do all later ones", async () => {
  const { admitted, take } = opened(10);
  const first = await take("first", 6);
  const second = take("second", 5);
  const third = take("third", 1);
  await Promise.resolve();
  expect(admitted).toEqual(["first"]);
  first.release();
  first.release();
  await Promise.all([second, third]);
  expect(admitted).toEqual(["first", "second", "third"]);
});

test("resizing a reservation releases bytes to the next reservation, or delays it", async () => {
  const { admitted, take } = opened(10);
  const first = await take("first", 8);
  first.resize(2);
  const second = await take("second", 8);
  first.resize(9);
  second.release();
  const third = take("third", 2);
  await Promise.resolve();
  expect(admitted).toEqual(["first", "second"]);
  first.release();
  await third;
});

test("an item larger than the whole budget is admitted alone", async () => {
  const { admitted, take } = opened(10);
  const first = await take("first", 100);
  const second = take("second", 1);
  await Promise.resolve();
  expect(admitted).toEqual(["first"]);
  first.release();
  await second;
});
