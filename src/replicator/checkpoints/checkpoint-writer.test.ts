import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import { parseReplication } from "../request/parse-replication.ts";
import { CheckpointWriter, type CheckpointWriterParts } from "./checkpoint-writer.ts";
import type { Checkpoints } from "./checkpoints.ts";

const STATISTICS = { docWriteFailures: 0 } as never;
const PLACE = { statistics: STATISTICS, startTimes: { source: "1", target: "1" } };
const { signal } = new AbortController();

/**
 * Creates a checkpoint writer for a run that has reached sequence 7. Also returns a log of the
 * writer's actions.
 */
function openWriter({
  parkedAt,
  ownership = async () => {},
  storedLog,
}: {
  readonly parkedAt?: CheckpointWriterParts["parkedAt"];
  readonly ownership?: () => Promise<void>;
  /** The replication log of both sides. */
  readonly storedLog?: object;
}) {
  const order: string[] = [];
  const endpoint = {
    continueLog: async () => {
      order.push("write");
      return "1";
    },
    readLocal: async () => storedLog && { revision: "0-1", body: JSON.stringify(storedLog) },
    readLog: async () => {
      order.push("read");
      return undefined;
    },
  } as unknown as Endpoint;
  const writer = new CheckpointWriter(
    {
      runtime: createSystemRuntime(),
      source: endpoint,
      target: endpoint,
      replication: parseReplication({ source: "a", target: "b", continuous: true }),
      ids: { baseId: "0".repeat(32) },
      mayWrite: async () => {
        order.push("check");
        await ownership();
      },
      failures: { isWhole: async () => true },
      ownCheckpoint: {} as never,
      parkedAt,
    },
    () => ({ through: 7, statistics: {} as never }),
  );
  const checkpoints = {
    ancestry: { history: [] },
    write: async () => {
      order.push("write");
    },
  } as unknown as Checkpoints;
  return { writer, checkpoints, order };
}

const lost = async (): Promise<void> => {
  throw new Error("The job is held no more");
};

test.each([
  ["with the checkpoints of both sides", undefined],
  ["where the earlier run parked", { sequence: 5, ...PLACE }],
  ["where the earlier run parked at the beginning", { sequence: 0, ...PLACE }],
])("a run that began %s writes only while it owns its job", async (_, parkedAt) => {
  for (const ownership of [undefined, lost]) {
    const opened = openWriter({ parkedAt, ...(ownership === undefined ? {} : { ownership }) });
    const { writer, checkpoints, order } = opened;
    writer.begin(5, parkedAt === undefined ? checkpoints : undefined);
    const writing = writer.write(signal);
    if (ownership === lost) {
      await expect(writing).rejects.toThrow("held no more");
      expect(order).toEqual(["check"]);
      expect(writer.committed).toBe(5);
    } else {
      await writing;
      expect([order[0], order[1]]).toEqual(["check", "write"]);
      expect(writer.committed).toBe(7);
    }
  }
});

/** Creates a replication log that ends at `sequence`. */
const logAt = (sequence: number): object => ({
  session_id: "a",
  source_last_seq: sequence,
  history: [{ session_id: "a", recorded_seq: sequence }],
});

test.each([
  ["its checkpoint", logAt(7), true],
  ["another checkpoint", logAt(6), false],
  ["no checkpoint", undefined, false],
])(
  "a run that has copied nothing accepts the parked position only if both sides have the position's checkpoint: %s",
  async (...[_, storedLog, isFound]) => {
    const parkedAt = { sequence: 7, ...PLACE };
    const { writer, order } = openWriter({ parkedAt, ...(storedLog && { storedLog }) });
    writer.begin(7, undefined);
    const writing = writer.write(signal);
    if (isFound) await writing;
    else await expect(writing).rejects.toMatchObject({ code: "REPLICATOR_PARKED_PLACE_LOST" });
    expect(order).toEqual([]);
  },
);
