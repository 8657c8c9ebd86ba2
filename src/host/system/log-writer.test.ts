import { expect, test } from "vitest";
import { createLogWriter, type LogFormat, type LogLevel, logFormat } from "./log-writer.ts";

function openLog(format: LogFormat = "json") {
  const lines: string[] = [];
  let nowMs = 1_000_000;
  let level: LogLevel = "info";
  const log = createLogWriter({
    level: () => level,
    format,
    nowMs: () => nowMs,
    destination: { write: (line) => lines.push(line) },
  });
  return {
    log,
    lines,
    json: () => lines.map((line) => JSON.parse(line)),
    pass: (ms: number) => (nowMs += ms),
    setLevel: (next: LogLevel) => (level = next),
  };
}

test("a line contains the name of the level, the time, the event and its members", () => {
  const { log, json } = openLog();
  log.event("replication.outage", { origin: "https://a" });
  log.event("replication.crashed", { jobId: "j", error: "e", reason: "r", pauseSec: 3 });
  expect(json()).toMatchObject([
    { level: "info", event: "replication.outage", origin: "https://a" },
    { level: "warn", event: "replication.crashed", jobId: "j", pauseSec: 3 },
  ]);
  for (const { time } of json()) expect(new Date(time).toISOString()).toBe(time);
});

test("routine events of healthy jobs have the level debug", () => {
  const { log, json, setLevel } = openLog();
  setLevel("debug");
  const started = { jobId: "j", replicationId: "r" };
  log.event("replication.started", { ...started, hasSucceeded: true });
  log.event("replication.started", { ...started, hasSucceeded: false });
  for (const state of ["parked", "pending", "completed"]) {
    log.event("replication.ended", { jobId: "j", state });
  }
  log.event("counts.reported", { rowCount: 1 });
  const levels = json().map(({ level }) => level);
  expect(levels).toEqual(["debug", "info", "debug", "debug", "info", "debug"]);
});

test("the human-readable form is short and on one line", () => {
  const { log, lines } = openLog("pretty");
  log.event("replication.crashed", { jobId: "j", error: "e", reason: "two\nlines", pauseSec: 3 });
  expect(lines.join("")).toMatch(
    /^\[\d{4}-\d\d-\d\dT[\d:.]+Z\] WARN: replication\.crashed \{"jobId":"j","error":"e","reason":"two\\nlines","pauseSec":3\}\n$/,
  );
});

test.each([
  ["auto", true, "pretty"],
  ["auto", false, "json"],
  ["json", true, "json"],
  ["pretty", false, "pretty"],
] as const)("the format %s on a terminal (%s) is %s", (setting, isTerminal, expected) => {
  expect(logFormat(setting, isTerminal)).toBe(expected);
});

test("the level can change at any time", () => {
  const { log, json, setLevel } = openLog();
  log.event("http.retry", { method: "GET", failureCount: 1 });
  setLevel("debug");
  log.event("http.retry", { method: "GET", failureCount: 2 });
  setLevel("warn");
  log.event("replication.outage", { origin: "https://a" });
  setLevel("silent");
  log.event("replication.failed", { jobId: "j", error: "e", reason: "r" });
  expect(json()).toMatchObject([{ level: "debug", failureCount: 2 }]);
});

test("a repeated error is logged once a minute, with a count", () => {
  const { log, json, pass } = openLog();
  const crash = (jobId: string, reason = "away") =>
    log.event("replication.crashed", { jobId, error: "http_request_failed", reason, pauseSec: 1 });
  crash("one");
  for (let count = 0; count < 500; count++) {
    crash(`job-${count}`);
    pass(100);
  }
  crash("other", "denied");
  expect(json().map(({ jobId, repeated }) => [jobId, repeated])).toEqual([
    ["one", undefined],
    ["other", undefined],
  ]);
  pass(10_000);
  // Any event causes the suppressed lines to be written.
  log.event("replication.outage", { origin: "https://a" });
  expect(json().slice(2)).toMatchObject([
    { event: "replication.crashed", jobId: "job-499", reason: "away", repeated: 500 },
    { event: "replication.outage" },
  ]);
  // A warning that has not occurred for a minute is written immediately.
  pass(61_000);
  log.event("replication.outage", { origin: "https://a" });
  crash("late");
  expect(json().at(-1)).toMatchObject({ jobId: "late" });
  expect(json().at(-1)).not.toHaveProperty("repeated");
});
