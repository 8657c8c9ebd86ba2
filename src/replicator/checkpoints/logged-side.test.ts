import { describe, expect, test } from "vitest";
import type { Endpoint } from "../endpoints/endpoint.ts";
import { LoggedSide } from "./logged-side.ts";
import { UNKNOWN_START_TIME } from "./stored-log.ts";

const ID = "_local/log";
const { signal } = new AbortController();

/** Creates one side of a run whose endpoint has no log yet. Counts the commit requests. */
function openSide({ instanceStartTime = "1" } = {}) {
  const state = {
    log: undefined as { revision: string; body: string } | undefined,
    commitCount: 0,
  };
  const endpoint = {
    writesDurably: true,
    readLocal: async () => state.log,
    writeLocal: async (_id: string, body: string, parent: string | undefined) => {
      if (parent !== state.log?.revision) return undefined;
      state.log = { revision: `0-${Number(parent?.slice(2) ?? 0) + 1}`, body };
      return state.log.revision;
    },
    commit: async () => {
      state.commitCount++;
      return instanceStartTime;
    },
  } as unknown as Endpoint;
  const side = new LoggedSide(
    "source",
    { endpoint, info: { instanceStartTime }, log: undefined },
    ID,
  );
  return { side, state };
}

describe("writing a log", () => {
  test("replaces the log that the same run wrote previously", async () => {
    const { side, state } = openSide();
    await side.write('{"a":1}', signal);
    await side.write('{"a":2}', signal);
    expect(state.log).toEqual({ revision: "0-2", body: '{"a":2}' });
  });

  test("keeps the log that another run wrote, and rejects the checkpoint", async () => {
    const { side, state } = openSide();
    state.log = { revision: "0-7", body: '{"other":1}' };
    await expect(side.write('{"a":1}', signal)).rejects.toMatchObject({
      reason: "Error updating the source checkpoint document: conflict",
    });
    expect(state.log).toEqual({ revision: "0-7", body: '{"other":1}' });
    expect(side.hasLog).toBe(false);
  });

  test("succeeds if only the response was lost, and the next write replaces the log", async () => {
    const { side, state } = openSide();
    state.log = { revision: "0-4", body: '{"a":1}' };
    await side.write('{"a":1}', signal);
    await side.write('{"a":2}', signal);
    expect(state.log).toEqual({ revision: "0-5", body: '{"a":2}' });
  });
});

describe("a database whose server reports no creation time", () => {
  test("counts as re-created if the log written by the run is missing", async () => {
    const { side, state } = openSide({ instanceStartTime: UNKNOWN_START_TIME });
    await side.write('{"a":1}', signal);
    expect(await side.makeDurable(true, signal)).toBe(true);
    await side.write('{"a":2}', signal);
    state.log = undefined;
    await expect(side.makeDurable(true, signal)).rejects.toMatchObject({
      reason: "The checkpoint no longer exists in the source database.",
    });
  });

  test("receives a commit request even in a short run if another run has replaced the log", async () => {
    const { side, state } = openSide({ instanceStartTime: UNKNOWN_START_TIME });
    await side.write('{"a":1}', signal);
    await side.makeDurable(true, signal);
    expect(state.commitCount).toBe(0);
    await side.write('{"a":2}', signal);
    state.log = { revision: "0-9", body: '{"other":1}' };
    await side.makeDurable(true, signal);
    expect(state.commitCount).toBe(1);
  });
});
