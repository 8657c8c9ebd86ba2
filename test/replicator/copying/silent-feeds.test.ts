/**
 * Continuous jobs whose feed sends nothing, either because nothing changes or because the server is
 * down. In virtual time.
 */
import { expect, test } from "vitest";
import type { Fetch } from "../../../src/http-client/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { World } from "../../simulation/kernel/world.ts";
import { responseOf } from "../../simulation/network/simulated-network.ts";
import { SERVER_URL, SimulatedServer } from "../../simulation/network/simulated-server.ts";
import { composeNode } from "../../support/compose-node.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const USER = { userName: "joe", isAdmin: true };
const STALL_TIMEOUT_SEC = 60;
const HOUR_MS = 3_600_000;
/** Option with a request timeout that is longer than all time limits of the run. */
const PATIENT = { connection_timeout: 600_000 };

test("a run whose feed sends only heartbeats does not count as stalled", async () => {
  const world = new World("silent-feeds");
  const server = new SimulatedServer(composeNode(world.openNode()));
  let isSilent = false;
  let feedCount = 0;
  const fetch: Fetch = async (request) => {
    if (new URL(request.url).searchParams.get("feed") === "longpoll") {
      feedCount++;
      if (isSilent) await world.time.sleep(Number.POSITIVE_INFINITY, request.signal);
    }
    return responseOf(await server.serve(request));
  };
  const config = { stallTimeoutSec: STALL_TIMEOUT_SEC, parkAfterSec: 0 };
  const node = openVirtualNode({ world, fetch, config });
  await node.createDatabase("films");
  await node.createDatabase("copy");
  await node.start();
  const body = { source: `${SERVER_URL}/films`, target: "copy", continuous: true, ...PATIENT };
  await world.until(node.replicator.start(parseReplication(body), USER));

  await world.time.run(HOUR_MS);
  expect(feedCount).toBeGreaterThan(HOUR_MS / (STALL_TIMEOUT_SEC * 1000));
  expect(node.names).not.toContain("replication.stalled");

  isSilent = true;
  const silentFromMs = world.time.nowMs;
  await world.time.run(2 * HOUR_MS, () => node.names.includes("replication.stalled"));
  expect(node.names).toContain("replication.stalled");
  expect(world.time.nowMs - silentFromMs).toBeLessThan(3 * STALL_TIMEOUT_SEC * 1000);

  isSilent = false;
  await node.put("films", "late", {});
  const documentCount = (): Promise<number> =>
    world.until(
      node.kv.read(async (tx) => {
        const { documentCount } = await (await node.databases.open(tx, "copy")).info(tx);
        return documentCount;
      }),
    );
  const beganAtMs = world.time.nowMs;
  while ((await documentCount()) === 0 && world.time.nowMs < beganAtMs + HOUR_MS) {
    await world.time.run(world.time.nowMs + 1000);
  }
  expect(await documentCount()).toBe(1);
  await node.stop();
});

test("the feed of a cluster that encodes the same sequence differently each time is polled with pauses", async () => {
  const world = new World("changing-sequences");
  const server = new SimulatedServer(composeNode(world.openNode()));
  let feedCount = 0;
  const fetch: Fetch = async (request) => {
    if (new URL(request.url).searchParams.get("feed") !== "longpoll") {
      return responseOf(await server.serve(request));
    }
    feedCount++;
    // If the run polls without pauses, this ends the polling, so that the test can fail.
    if (feedCount > 1_000) await world.time.sleep(Number.POSITIVE_INFINITY, request.signal);
    const last_seq = `5-g1AAAA${feedCount}`;
    const bytes = new TextEncoder().encode(JSON.stringify({ results: [], last_seq, pending: 0 }));
    return responseOf({ status: 200, type: "application/json", bytes });
  };
  const node = openVirtualNode({ world, fetch, config: { parkAfterSec: 0 } });
  await node.createDatabase("films");
  await node.createDatabase("copy");
  await node.start();
  const body = { source: `${SERVER_URL}/films`, target: "copy", continuous: true };
  await world.until(node.replicator.start(parseReplication(body), USER));
  await world.time.run(60_000);
  expect(feedCount).toBeGreaterThan(1);
  expect(feedCount).toBeLessThan(500);
  await node.stop();
});
