import { expect, test } from "vitest";
import { systemClock } from "../system/clock.ts";
import { DiskRoom } from "./disk-room.ts";

/** Simulates a disk with `freeBytes` bytes free, and a manual clock. */
function openWorld(freeBytes: number) {
  const world = { freeBytes, nowMs: 0, events: [] as string[] };
  const clock = { ...systemClock, monotonicMs: () => world.nowMs };
  const trace = { event: (name: string) => void world.events.push(name) };
  const room = new DiskRoom({ clock, trace }, "/data", () => world.freeBytes);
  return { world, room };
}

test("reports a full disk once, and reports once when there is clearly enough space again", () => {
  const { world, room } = openWorld(20_000);
  room.look();
  expect(room.isFull).toBe(false);
  for (let count = 0; count < 1_000; count++) {
    room.refused("the disk is full");
    room.look();
  }
  // Enough space for some commits, but not for others.
  world.freeBytes = 2_000_000;
  world.nowMs += 3_600_000;
  room.look();
  expect(room.isFull).toBe(true);
  expect(world.events).toEqual(["kv.disk-full"]);
  world.freeBytes = 16_000_000;
  room.look();
  expect(room.isFull).toBe(false);
  room.look();
  expect(world.events).toEqual(["kv.disk-full", "kv.disk-has-room"]);
});

test("if a commit fails despite enough free space, the disk counts as full until a minute without failures", () => {
  const { world, room } = openWorld(1e12);
  room.refused("quota");
  world.nowMs += 59_000;
  room.look();
  room.refused("quota");
  world.nowMs += 59_000;
  room.look();
  expect(room.isFull).toBe(true);
  world.nowMs += 1_000;
  room.look();
  expect(room.isFull).toBe(false);
  expect(world.events).toEqual(["kv.disk-full", "kv.disk-has-room"]);
});
