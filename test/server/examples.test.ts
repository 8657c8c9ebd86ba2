/** The alert rules and the dashboard in `examples/` use only metrics that a node has. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { openServer, type RunningServer, readConfig } from "../../src/server/index.ts";

const read = (name: string): string =>
  readFileSync(new URL(`../../examples/${name}`, import.meta.url), "utf8");

/** Metrics that Prometheus itself adds to each scrape. */
const PROMETHEUS_OWN = ["up"];

let server: RunningServer;
/** Names of the existing metrics. */
const metrics = new Set(PROMETHEUS_OWN);

beforeAll(async () => {
  server = await openServer(readConfig({ port: 0, store: "memory" }, {}), { event() {} });
  const text = await (await fetch(`${server.url}/_node/_local/_prometheus`)).text();
  for (const [, name] of text.matchAll(/^# TYPE (\S+)/gm)) metrics.add(String(name));
});
afterAll(() => server.stop());

/** Returns the names of the metrics in an expression. */
function metricsOf(expression: string): string[] {
  const bare = expression
    .replace(/"[^"]*"/g, "")
    .replace(/\{[^}]*\}/g, "")
    .replace(/\[[^\]]*\]/g, "")
    .replace(/\b(by|without|on|ignoring)\s*\([^)]*\)/g, "");
  return [...bare.matchAll(/[a-zA-Z_:][\w:]*/g)]
    .filter(({ 0: name, index }) => !/^\s*\(/.test(bare.slice(index + name.length)))
    .map(([name]) => name)
    .filter((name) => !AGGREGATIONS.has(name));
}

/**
 * Aggregations and operators. They are excluded by name, because they can occur without a
 * parenthesis.
 */
const AGGREGATIONS = new Set(["max", "sum", "min", "avg", "count", "and", "or", "unless", "bool"]);

const unknownOf = (expressions: readonly string[]): string[] =>
  expressions.flatMap(metricsOf).filter((name) => !metrics.has(name));

function promtool(...args: readonly string[]) {
  return spawnSync("promtool", args, { encoding: "utf8" });
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string };
}

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
}

test("the rules of examples/alerts.yml use only existing metrics", () => {
  const { groups } = parse(read("alerts.yml")) as { readonly groups: { rules: Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  expect(rules.length).toBeGreaterThan(6);
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  for (const { annotations } of rules) expect(annotations.summary).toMatch(/\w/);
  expect(unknownOf(rules.map(({ expr }) => expr))).toEqual([]);
  expect(rules.flatMap(({ expr }) => metricsOf(expr))).toContain("tandem_jobs_stalled");
});

test.skipIf(promtool("--version").error !== undefined)(
  "promtool, if installed, accepts the rules of examples/alerts.yml",
  () => {
    const file = fileURLToPath(new URL("../../examples/alerts.yml", import.meta.url));
    const { status, stdout, stderr } = promtool("check", "rules", file);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(/SUCCESS: \d+ rules found/);
  },
);

test("the dashboard of examples/grafana.json uses only existing metrics, from the selected data source", () => {
  const page = JSON.parse(read("grafana.json"));
  const panels: readonly Panel[] = page.panels;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  expect(expressions.length).toBeGreaterThan(panels.length);
  expect(unknownOf(expressions)).toEqual([]);
  const [{ name }] = page.__inputs;
  const sources = new Set(
    [...read("grafana.json").matchAll(/"uid": "(\$.*)"/g)].map(([, uid]) => uid),
  );
  expect([...sources]).toEqual([`\${${name}}`]);
});

test("a metric that does not exist is detected", () => {
  const expressions = [
    'max by (a) (tandem_jobs_stalled{b="c"}) > 0',
    "sum(rate(nothing_total[5m]))",
  ];
  expect(unknownOf(expressions)).toEqual(["nothing_total"]);
});
