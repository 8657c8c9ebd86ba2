/** Watches fire on every change by any transaction. They are allowed to fire without a change. */

import type { Watch } from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { bytes, type Fixture, put, read } from "./fixture.ts";

export function watchTests(fixture: () => Fixture, test: Test): void {
  const key = bytes("watched");
  const arm = (): Promise<Watch> => fixture().kv.transact(async (tx) => tx.watch(key));
  const isPending = async (watch: Watch): Promise<boolean> => {
    const pending = Symbol("pending");
    const settled = await Promise.race([watch.fired(), Promise.resolve(pending)]);
    return settled === pending;
  };

  test("a watch fires when another node sets, changes or clears the key", async () => {
    for (const change of [
      () => fixture().peerKv.transact(async (tx) => put(tx, "watched", "1")),
      () => fixture().peerKv.transact(async (tx) => put(tx, "watched", "2")),
      () => fixture().kv.transact(async (tx) => put(tx, "watched", "3")),
      () => fixture().peerKv.transact(async (tx) => tx.add(key, 1n)),
      () =>
        fixture().peerKv.transact(async (tx) =>
          tx.clearRange({ begin: bytes("w"), end: bytes("x") }),
        ),
    ]) {
      const watch = await arm();
      expect(await isPending(watch)).toBe(true);
      await change();
      await watch.fired();
    }
  });

  test("a watch does not fire for a write of its own transaction", async () => {
    const watch = await fixture().kv.transact(async (tx) => {
      put(tx, "watched", "mine");
      return tx.watch(key);
    });
    await fixture().peerKv.transact(async (tx) => put(tx, "other", "1"));
    expect(await isPending(watch)).toBe(true);
    await fixture().peerKv.transact(async (tx) => put(tx, "watched", "theirs"));
    await watch.fired();
  });

  test("a watch fires if its key changes between the transaction's read and its commit", async () => {
    const watch = await fixture().kv.transact(async (tx) => {
      await read(tx.snapshot, "watched");
      const armed = tx.watch(key);
      await fixture().peerKv.transact(async (other) =>
        put(other, "watched", String(Math.random())),
      );
      return armed;
    });
    await watch.fired();
  });

  test("one change fires all watches on its key", async () => {
    const watches = await Promise.all([arm(), arm(), arm()]);
    await fixture().peerKv.transact(async (tx) => put(tx, "watched", "1"));
    await Promise.all(watches.map((watch) => watch.fired()));
  });

  test("an aborted signal ends only the wait for a watch, and the caller can wait for the watch again", async () => {
    const watch = await arm();
    const controller = new AbortController();
    const waiting = watch.fired(controller.signal);
    controller.abort(new Error("no longer"));
    await expect(waiting).rejects.toThrow("no longer");
    await fixture().peerKv.transact(async (tx) => put(tx, "watched", "1"));
    await watch.fired();
  });

  test("a cancelled watch ends, and cancelling it again has no effect", async () => {
    const watch = await arm();
    const waiting = watch.fired();
    const ended = expect(waiting).rejects.toMatchObject({ code: "KV_CLOSED" });
    watch.cancel();
    watch.cancel();
    await ended;
  });
}
