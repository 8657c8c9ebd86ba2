import { describe, expect, test } from "vitest";
import { NO_STATISTICS } from "../jobs/replication-statistics.ts";
import { httpDate } from "../times.ts";
import {
  commonAncestry,
  continuedLog,
  nextLog,
  parseReplicationLog,
  type ReplicationLogEntry,
} from "./replication-log.ts";

function entry(session: string, recorded: unknown): ReplicationLogEntry {
  return {
    session_id: session,
    start_time: "",
    end_time: "",
    start_last_seq: 0,
    end_last_seq: recorded,
    recorded_seq: recorded,
    missing_checked: 0,
    missing_found: 0,
    docs_read: 0,
    docs_written: 0,
    doc_write_failures: 0,
  };
}

test("starts from the beginning if a side has no log", () => {
  expect(commonAncestry(undefined, { session_id: "a", source_last_seq: 7 })).toEqual({
    sequence: 0,
    history: [],
  });
});

test("resumes at the end of a session if both sides recorded the same end", () => {
  const log = { session_id: "b", source_last_seq: "9-x", history: [entry("b", "9-x")] };
  expect(commonAncestry(log, log)).toEqual({ sequence: "9-x", history: log.history });
});

test("skips a session that only one side recorded", () => {
  const source = { session_id: "c", history: [entry("c", 30), entry("b", 20), entry("a", 10)] };
  const target = { session_id: "b", history: [entry("b", 20), entry("a", 10)] };
  expect(commonAncestry(source, target).sequence).toBe(20);
  expect(commonAncestry(target, source).sequence).toBe(20);
});

describe("a session that ends at a different position in each log", () => {
  const at = (sequence: unknown, ...earlier: readonly number[]) => ({
    session_id: "b",
    source_last_seq: sequence,
    earlier_checkpoints: earlier.map((seq) => ({ number: seq / 5, seq })),
    history: [{ ...entry("b", sequence), start_last_seq: 10 }, entry("a", 10)],
  });

  test("resumes at the earlier position if the logs are one checkpoint apart", () => {
    const behind = at(20);
    expect(commonAncestry(at(30, 20), behind)).toEqual({ sequence: 20, history: behind.history });
    expect(commonAncestry(behind, at(30, 20))).toEqual({ sequence: 20, history: behind.history });
  });

  test("resumes at the latest position that both logs contain", () => {
    const behind = at(20, 15);
    expect(commonAncestry(at(40, 30, 20, 15), behind)).toEqual({
      sequence: 20,
      history: behind.history,
    });
    const aside = { sequence: 15, history: [entry("a", 10)] };
    expect(commonAncestry(at(40, 30, 15), at(20, 15))).toEqual(aside);
  });

  test("resumes at the start of the session if the logs share no later position", () => {
    const began = { sequence: 10, history: [entry("a", 10)] };
    expect(commonAncestry(at(40, 30), at(20))).toEqual(began);
    expect(commonAncestry(at(20), at(40, 30))).toEqual(began);
    expect(commonAncestry(at(40), at(30))).toEqual(began);
  });

  test("starts from the beginning if the logs share neither a position nor the start of the session", () => {
    const other = { ...at(20), history: [entry("b", 20)] };
    expect(commonAncestry(at(40), other)).toEqual({ sequence: 0, history: [] });
    expect(commonAncestry(at(40), { ...other, history: [] }).sequence).toBe(0);
  });

  test("resumes at the start or end of a session that is in both logs, even if one log has later sessions", () => {
    const later = { session_id: "c", history: [entry("c", 50), ...at(40).history] };
    expect(commonAncestry(later, at(30)).sequence).toBe(10);
    expect(commonAncestry(at(30), later).sequence).toBe(10);
    expect(commonAncestry(later, at(40)).sequence).toBe(40);
  });
});

test("starts from the beginning if the histories share no session", () => {
  const source = { session_id: "c", history: [entry("c", 30)] };
  const target = { session_id: "d", history: [entry("d", 40)] };
  expect(commonAncestry(source, target)).toEqual({ sequence: 0, history: [] });
});

test("keeps one entry per run, and at most fifty entries", () => {
  const earlier = Array.from({ length: 60 }, (_, index) => entry(String(index), index));
  const log = nextLog({
    sessionId: "now",
    startTimeMs: 0,
    nowMs: 1000,
    startSequence: 5,
    throughSequence: 6,
    statistics: NO_STATISTICS,
    earlier,
    byDocumentIds: false,
    earlierCheckpoints: [{ number: 1, seq: 4 }],
  });
  expect(log.earlier_checkpoints).toEqual([{ number: 1, seq: 4 }]);
  expect(log.history?.length).toBe(50);
  expect(log.history?.[0]?.session_id).toBe("now");
  expect(log.source_last_seq).toBe(6);
});

const CONTINUED = {
  session_id: "c",
  source_last_seq: "9-x",
  history: [{ ...entry("c", "9-x"), start_last_seq: "5-x" }],
};

function stored(session: string, sequence: unknown, ...earlier: ReplicationLogEntry[]): string {
  const history = [entry(session, sequence), ...earlier];
  return JSON.stringify({ session_id: session, source_last_seq: sequence, history });
}

test("appends the history of a stored log that ends where the new one begins", () => {
  const log = continuedLog(stored("b", "5-x", entry("a", "2-x")), CONTINUED);
  expect(log?.source_last_seq).toBe("9-x");
  expect(log?.history?.map(({ session_id }) => session_id)).toEqual(["c", "b", "a"]);
});

test("replaces the entry of the same run in a stored log", () => {
  const earlier = { ...entry("c", "7-x"), start_last_seq: "5-x" };
  const history = [earlier, entry("b", "5-x")];
  const own = JSON.stringify({ session_id: "c", source_last_seq: "7-x", history });
  expect(continuedLog(own, CONTINUED)?.history).toEqual([CONTINUED.history[0], history[1]]);
});

test("a continued log keeps at most fifty entries", () => {
  const earlier = Array.from({ length: 49 }, (_, index) => entry(`old-${index}`, index));
  const history = continuedLog(stored("b", "5-x", ...earlier), CONTINUED)?.history;
  expect(history).toHaveLength(50);
  expect(history?.at(-1)?.session_id).toBe("old-47");
});

test("rejects a stored log that is invalid, or does not end where the new one begins", () => {
  for (const text of [stored("b", "4-x"), stored("b", 5), '{"n":1}', "{}"]) {
    expect(continuedLog(text, CONTINUED)).toBeUndefined();
  }
  expect(continuedLog(stored("b", "5-x"), { ...CONTINUED, history: [] })).toBeUndefined();
});

test("rejects a sequence that is nested too deeply to be written", () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  expect(parseReplicationLog(`{"session_id":"a","source_last_seq":${deep}}`)).toBeUndefined();
});

test("keeps sequences with large numbers as strings, so that no digit changes", () => {
  const large = "369553424691494913";
  const entry = `{"session_id":"a","start_last_seq":0,"end_last_seq":[${large},"x"],"recorded_seq":${large}}`;
  const text = `{"session_id":"a","source_last_seq":${large},"history":[${entry}]}`;
  expect(parseReplicationLog(text)).toMatchObject({
    source_last_seq: large,
    history: [{ start_last_seq: 0, end_last_seq: `[${large},"x"]`, recorded_seq: large }],
  });
});

test.each(["9007199254740993", "[9007199254740993]", "1.0", '"9007199254740993"', "null"])(
  "does not parse %s as a log",
  (text) => {
    expect(parseReplicationLog(text)).toBeUndefined();
  },
);

test("formats dates as in RFC 1123", () => {
  expect(httpDate(Date.UTC(2013, 9, 10, 5, 56, 38))).toBe("Thu, 10 Oct 2013 05:56:38 GMT");
});

test.each([
  "[]",
  "5",
  "{}",
  '{"session_id":5,"source_last_seq":7}',
  '{"session_id":"a","source_last_seq":"@"}',
])("does not parse %s as a log", (text) => {
  expect(parseReplicationLog(text.replace("@", "s".repeat(40_000)))).toBeUndefined();
});

test("reads at most fifty entries of an untrusted log, and replaces invalid counts with zero", () => {
  const odd = [
    null,
    5,
    {},
    { ...entry("a", 1), session_id: 5 },
    { ...entry("b", "s".repeat(40_000)) },
  ];
  const long = Array.from({ length: 100_000 }, (_, index) => entry(`s-${index}`, index));
  const poisoned = {
    ...entry("c", 7),
    docs_read: -5,
    docs_written: "many",
    doc_write_failures: 1e99,
  };
  const text = JSON.stringify({ session_id: "x", history: [...odd, poisoned, ...long], more: "x" });
  const log = parseReplicationLog(text);
  expect(log).toMatchObject({ session_id: "x" });
  expect(log).not.toHaveProperty("more");
  expect(log?.history?.[0]).toEqual(entry("c", 7));
  expect(log?.history).toHaveLength(45);
});

test("reading a written log returns the same log", () => {
  const sequences = {
    source_last_seq: [9, "x"],
    earlier_checkpoints: [
      { number: 2, seq: [8, "x"] },
      { number: 1, seq: [7, "x"] },
    ],
  };
  const log = { session_id: "b", ...sequences, history: [entry("b", [9, "x"])] };
  expect(parseReplicationLog(JSON.stringify(log))).toEqual(log);
});
