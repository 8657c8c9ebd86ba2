import { expect, test } from "vitest";
import { ByteRoom } from "./byte-room.ts";

/** Names in the order of admission. */
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

test("who wants more than is left waits, and those behind them too", async () => {
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

test("what proves smaller makes room, and what proves larger takes it from the next", async () => {
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

test("what is larger than all the room is taken alone", async () => {
  const { admitted, take } = opened(10);
  const first = await take("first", 100);
  const second = take("second", 1);
  await Promise.resolve();
  expect(admitted).toEqual(["first"]);
  first.release();
  await second;
});
