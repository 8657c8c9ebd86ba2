import fc from "fast-check";
import { expect, test } from "vitest";
import type { Alert } from "../../replicator/index.ts";
import { alertedRules, messageOf } from "./alert-message.ts";

const NOW_MS = Date.UTC(2026, 0, 2);
const PLACE = { class: "unreachable", side: "source", host: "far.example" };
const CAUSE = { ...PLACE, rule: "rule-1", tags: ["cost-center:7", "team:a:b"] };

const alert = (jobId: string, more: Partial<Alert> = {}): Alert => ({
  ...{ id: `alert-${jobId}`, breachId: `breach-${jobId}`, kind: "failing", status: "firing" },
  ...{ jobId, timeMs: NOW_MS - 1000, sinceMs: NOW_MS - 2000, cause: CAUSE },
  ...more,
});
const JOBS = {
  names: new Map([
    ["a", "users/<a>"],
    ["b", "users/b"],
  ]),
  row: { id: "a" },
  rule: "users",
};

test("a message in Tandem's format describes the first alert and lists all alerts", () => {
  const body = JSON.parse(messageOf("tandem", [alert("a"), alert("b")], JOBS, NOW_MS));
  expect(body).toEqual({
    ...{ id: "alert-a", event: "failing", status: "firing", breach: "breach-a" },
    ...{ time: "2026-01-01T23:59:59Z", sent: "2026-01-02T00:00:00Z" },
    ...{ job_id: "a", job: { id: "a" }, class: "unreachable", side: "source" },
    ...{ host: "far.example", rule: "users", count: 2 },
    tags: { "cost-center": "7", team: "a:b" },
    alerts: [
      { id: "alert-a", breach: "breach-a", job_id: "a", name: "users/<a>" },
      { id: "alert-b", breach: "breach-b", job_id: "b", name: "users/b" },
    ],
  });
});

test("each job has its own alert in Alertmanager, and a resolved alert keeps its labels", () => {
  const [firing] = JSON.parse(messageOf("alertmanager", [alert("a")], JOBS, NOW_MS));
  const ended = alert("a", { status: "resolved" });
  const [resolved] = JSON.parse(messageOf("alertmanager", [ended], JOBS, NOW_MS));
  expect(resolved.labels).toEqual(firing.labels);
  expect(firing.labels).toEqual({
    ...{ alertname: "Tandem_failing", job_id: "a", class: "unreachable", side: "source" },
    ...{ host: "far.example", tag_cost_center: "7", tag_team: "a:b" },
  });
  expect(firing.startsAt).toBe("2026-01-01T23:59:58Z");
  expect(Date.parse(firing.endsAt)).toBeGreaterThan(NOW_MS);
  expect(resolved.endsAt).toBe("2026-01-01T23:59:59Z");
  expect(firing.annotations).toMatchObject({ job: "users/<a>", rule: "users" });
});

test("alerts that are never resolved expire in Alertmanager after some minutes", () => {
  for (const more of [
    { kind: "test", status: "firing", jobId: "" },
    { kind: "finished", status: "completed" },
    { kind: "finished", status: "failed" },
  ] as const) {
    const [sent] = JSON.parse(messageOf("alertmanager", [alert("a", more)], JOBS, NOW_MS));
    expect(Date.parse(sent.endsAt) - NOW_MS).toBe(5 * 60_000);
  }
});

test("a message for Slack lists the names of some jobs, and escapes the names", () => {
  const alerts = ["a", "b", "c"].map((jobId) => alert(jobId));
  expect(JSON.parse(messageOf("slack", alerts, JOBS, NOW_MS))).toEqual({
    text: "*3 jobs failing: unreachable at far.example (source)* (rule `users`)\n• `users/&lt;a&gt;`\n• `users/b`\nand 1 more",
  });
  const ended = alert("b", { kind: "finished", status: "completed" });
  expect(JSON.parse(messageOf("slack", [ended], JOBS, NOW_MS)).text).toMatch(
    /^\*1 job completed\*/,
  );
});

test("alerts about rules name the rules instead of jobs", () => {
  const cause = { ...CAUSE, rule: undefined };
  const alerts = ["users", "films"].map((rule) => alert(rule, { kind: "rule_failing", cause }));
  const message = (format: "tandem" | "alertmanager" | "slack", of = alerts) =>
    JSON.parse(messageOf(format, of, alertedRules(of), NOW_MS));
  expect(message("tandem")).toMatchObject({
    ...{ event: "rule_failing", job_id: null, job: null, rule: null, count: 2 },
    alerts: [
      { id: "alert-users", breach: "breach-users", job_id: null, name: "users" },
      { id: "alert-films", breach: "breach-films", job_id: null, name: "films" },
    ],
  });
  expect(message("tandem", alerts.slice(1))).toMatchObject({ rule: "films", count: 1 });
  const [first, second] = message("alertmanager");
  expect(first).toMatchObject({
    labels: {
      ...{ alertname: "Tandem_rule_failing", rule: "users", class: "unreachable" },
      ...{ side: "source", host: "far.example" },
    },
    annotations: { summary: "1 rule failing: unreachable at far.example (source)" },
  });
  expect([first.labels.job_id, second.labels.rule]).toEqual([undefined, "films"]);
  expect(message("slack").text).toBe(
    "*2 rules failing: unreachable at far.example (source)*\n• `users`\n• `films`",
  );
});

test("a message for Slack shows each name in one short line, without formatting", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary", maxLength: 2_000 })), (names) => {
      const alerts = names.map((_, index) => alert(String(index)));
      const named = { names: new Map(names.map((name, index) => [String(index), name])) };
      if (alerts.length === 0) return;
      const body = messageOf("slack", alerts, { ...named, row: null, rule: null }, NOW_MS);
      const { text } = JSON.parse(body);
      expect(text.length).toBeLessThan(40_000);
      const [, ...lines] = text.split(/[\n\r\u2028\u2029]/u);
      expect(lines.filter((line: string) => line.startsWith("•"))).toHaveLength(
        Math.min(5, names.length),
      );
      for (const line of lines) expect(line).toMatch(/^• `[^`<>]*`$|^and \d+ more$/);
    }),
  );
});
