/**
 * Speed of replications between distant servers in virtual time, relative to the same servers
 * nearby. Nearby, only the servers' processors limit the speed. The ratio therefore shows how well
 * latency is hidden, independently of the machine that runs the test.
 */
import { expect, test } from "vitest";
import { type FarRun, replicateFar } from "./distance/replicate-far.ts";

/** Round-trip time to a near server. */
const NEAR_MS = 0.5;
/** Round-trip times to distant servers. */
const FAR_MS = [100, 300];
const FARTHEST_MS = 300;
const MEBIBYTE = 1024 * 1024;
/** Maximum number of bytes that a job with four copiers holds, whatever the latency. */
const HELD_BYTES_MAX = 32 * MEBIBYTE;

/**
 * Returns the documents per second, measured after the number of batches has settled and before the
 * last documents.
 */
function steadyRate({ servers }: FarRun, fromCount: number, untilCount: number): number {
  const beganMs = servers.writtenAtMs(fromCount);
  return ((untilCount - fromCount) * 1000) / (servers.writtenAtMs(untilCount) - beganMs);
}

/** Returns the steady rate of the first run, relative to the second. */
function ratio(far: FarRun, near: FarRun, fromCount: number, untilCount: number): number {
  return steadyRate(far, fromCount, untilCount) / steadyRate(near, fromCount, untilCount);
}

const SMALL = { count: 60_000, from: 20_000, until: 55_000 };
const small = (roundTripMs: number, members?: object) =>
  replicateFar({ roundTripMs, bodyBytes: 500, changeCount: () => SMALL.count }, members);

test("small documents reach four fifths of the local rate at any distance", async () => {
  const near = await small(NEAR_MS);
  expect(near.servers.underWayMax).toMatchObject({ _bulk_get: 4, _bulk_docs: 4 });
  for (const roundTripMs of FAR_MS) {
    const far = await small(roundTripMs);
    expect(far.servers.writtenCount).toBe(SMALL.count);
    expect(ratio(far, near, SMALL.from, SMALL.until)).toBeGreaterThan(0.8);
    expect(far.servers.heldBytesMax).toBeLessThan(HELD_BYTES_MAX);
  }
});

test("a continuous job between distant servers catches up at four fifths of the local rate", async () => {
  const catchUp = (ms: number, untilMs: number) =>
    replicateFar(
      { roundTripMs: ms, bodyBytes: 500, changeCount: () => SMALL.count },
      { continuous: true },
      untilMs,
    );
  const near = await catchUp(NEAR_MS, 5000);
  const far = await catchUp(FARTHEST_MS, 12_000);
  expect(far.servers.writtenCount).toBe(SMALL.count);
  expect(ratio(far, near, SMALL.from, SMALL.until)).toBeGreaterThan(0.8);
});

test("documents with 50 KiB of attachments reach four fifths of the local rate between distant servers", async () => {
  const attachmentBytes = 50 * 1024;
  const copy = (ms: number) =>
    replicateFar({ roundTripMs: ms, bodyBytes: 500, attachmentBytes, changeCount: () => 4000 });
  const near = await copy(NEAR_MS);
  const far = await copy(FARTHEST_MS);
  expect(far.servers.writtenCount).toBe(4000);
  expect(ratio(far, near, 1000, 3500)).toBeGreaterThan(0.8);
  expect(far.servers.heldBytesMax).toBeLessThan(HELD_BYTES_MAX * 1.1);
});

/** Documents whose attachments are too large to be inlined. Each row has their size and number. */
test.each([
  [130, 3600],
  [1024, 600],
])(
  "documents with %d KiB of attachments reach four fifths of the local rate between distant servers",
  async (kib, count) => {
    const attachmentBytes = kib * 1024;
    const copy = (ms: number) =>
      replicateFar({ roundTripMs: ms, bodyBytes: 500, attachmentBytes, changeCount: () => count });
    const near = await copy(NEAR_MS);
    expect(near.servers.underWayMax).toMatchObject({ read: 20, write: 20 });
    const far = await copy(FARTHEST_MS);
    expect(far.servers.writtenCount).toBe(count);
    expect(ratio(far, near, count / 4, count * 0.9)).toBeGreaterThan(0.8);
    expect(far.servers.underWayMax.read).toBeLessThanOrEqual(160);
    // Large attachments are streamed rather than held in memory.
    expect(far.servers.heldBytesMax).toBeLessThan(4 * MEBIBYTE);
  },
);

test.each([100, 300])(
  "with a round trip of %d ms, a continuous job keeps up with 100 changes per second",
  async (roundTripMs) => {
    const { servers } = await replicateFar(
      {
        roundTripMs,
        bodyBytes: 500,
        changeCount: (nowMs) => Math.floor(nowMs / 10),
        changedAtMs: (count) => count * 10,
      },
      { continuous: true },
      20_000,
    );
    // One document is written every 10 ms. Documents that were written within the last four round
    // trips can still be in flight.
    expect(servers.writtenCount).toBeGreaterThan(2000 - (4 * roundTripMs) / 10);
  },
);

test("a distant target gets fewer concurrent requests while it is slow, and as many as at first once it has recovered", async () => {
  const slowFromMs = 8000;
  const slowUntilMs = 20_000;
  const underWay: { readonly atMs: number; readonly count: number }[] = [];
  const far = await replicateFar({
    roundTripMs: 300,
    bodyBytes: 500,
    changeCount: () => 200_000,
    slownessAt: (nowMs) => (nowMs > slowFromMs && nowMs < slowUntilMs ? 20 : 1),
    onWrite: (count, atMs) => underWay.push({ atMs, count }),
  });
  const most = (fromMs: number, untilMs: number): number =>
    Math.max(
      ...underWay.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs).map(({ count }) => count),
    );
  expect(far.servers.writtenCount).toBe(200_000);
  expect(most(6000, slowFromMs)).toBeGreaterThan(12);
  expect(most(slowFromMs + 8000, slowUntilMs)).toBeLessThanOrEqual(6);
  expect(most(slowUntilMs + 3000, Number.POSITIVE_INFINITY)).toBeGreaterThan(12);
}, 600_000);

test("distant servers get fewer concurrent requests for single documents once they slow down", async () => {
  const slowFromMs = 6000;
  const most = { before: 0, after: 0 };
  const far = await replicateFar({
    roundTripMs: 300,
    bodyBytes: 500,
    attachmentBytes: 200 * 1024,
    changeCount: () => 1600,
    slownessAt: (nowMs) => (nowMs > slowFromMs ? 20 : 1),
    onRead: (count, atMs) => {
      if (atMs < slowFromMs) most.before = Math.max(most.before, count);
      else if (atMs > slowFromMs + 30_000) most.after = Math.max(most.after, count);
    },
  });
  expect(far.servers.writtenCount).toBe(1600);
  expect(most.before).toBeGreaterThan(60);
  // Twenty concurrent requests, and eight more that the servers had processed but whose responses
  // had not arrived.
  expect(most.after).toBeLessThanOrEqual(28);
});

test("the number of documents that are copied by concurrent individual requests does not exceed the configured maximum", async () => {
  for (const [members, least, most] of [
    [{ http_connections: 3 }, 3, 3],
    [{ http_connections: 3, http_connections_max: 9 }, 4, 9],
  ] as const) {
    const { servers } = await replicateFar(
      {
        roundTripMs: 300,
        bodyBytes: 500,
        attachmentBytes: 200 * 1024,
        changeCount: () => 100,
      },
      members,
    );
    for (const count of [servers.underWayMax.read, servers.underWayMax.write]) {
      expect(count).toBeGreaterThanOrEqual(least);
      expect(count).toBeLessThanOrEqual(most);
    }
  }
});

test("the number of running copiers does not exceed the configured maximum", async () => {
  for (const members of [
    { worker_processes: 2 },
    { worker_processes: 1, worker_processes_max: 2 },
  ]) {
    const far = await replicateFar(
      { roundTripMs: 300, bodyBytes: 500, changeCount: () => 10_000 },
      members,
    );
    expect(far.servers.underWayMax).toMatchObject({ _bulk_get: 2, _bulk_docs: 2 });
  }
});
