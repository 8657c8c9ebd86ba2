import { expect, test } from "vitest";
import { QUERIES } from "../../contract/index.ts";
import type { ProtocolError } from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { readQuery } from "../http/query.ts";
import { commandFilterOf, eventFilterOf, filterOf, pageOf } from "./job-query.ts";

const asking = (text: string): Call =>
  ({ request: { query: new Map(new URLSearchParams(text)) } }) as unknown as Call;

function reasonOf(parse: () => unknown): string | undefined {
  try {
    parse();
    return undefined;
  } catch (error) {
    return (error as ProtocolError).reason;
  }
}

test.each([
  ["behind=false", { isCaughtUp: true }, undefined],
  ["behind=true", {}, 0],
  ["behind=true&behind_sec=60", {}, 60],
  ["behind_sec=60", {}, 60],
  ["state=failed,crashing", { states: ["failed", "crashing"] }, undefined],
  ["paused=false&parked=true", { paused: false, parked: true }, undefined],
  ["owner=ann&reason=refused", { owner: "ann", reason: "refused" }, undefined],
])("%s becomes the same filter in pages, commands and feeds", (text, filter, behindSec) => {
  const expected = { filter, behindSec, database: undefined, rule: undefined };
  expect(pageOf(asking(text))).toMatchObject(expected);
  expect(commandFilterOf(asking(text))).toEqual({ ...expected, list: false });
  const query = readQuery(asking(text), QUERIES["GET /_tandem/events"]);
  expect(filterOf(query)).toEqual(expected);
  expect(eventFilterOf(query).asked).toEqual(expected);
});

test("the filters that exist only for events are read from the query", () => {
  const text = "kind=failing,Lost&job=a/b&endpoint=a.example&rule=r";
  expect(eventFilterOf(readQuery(asking(text), QUERIES["GET /_tandem/events"])).own).toEqual({
    kinds: ["failing", "lost"],
    job: "a/b",
    endpoint: "a.example",
    ruleName: "r",
  });
});

test("a command without a filter is rejected unless it selects all jobs explicitly", () => {
  for (const text of ["", "all=false"]) {
    expect(reasonOf(() => commandFilterOf(asking(text)))).toMatch(/^Select jobs by .*all=true$/);
  }
  expect(commandFilterOf(asking("all=true")).filter).toEqual({});
  for (const filter of ["database=_replicator", "rule=r", "behind_sec=0", "behind=false"]) {
    expect(() => commandFilterOf(asking(filter))).not.toThrow();
  }
});

test("sorting by failures lists only failing jobs", () => {
  for (const order of ["since", "tries"]) {
    const reason = reasonOf(() => pageOf(asking(`sort=${order}&failing=false`)));
    expect(reason).toBe(`sort=${order} only lists failing jobs; omit failing=false`);
    expect(pageOf(asking(`sort=${order}&failing=true`)).order).toBe(order);
    expect(pageOf(asking(`sort=${order}`)).order).toBe(order);
  }
  expect(pageOf(asking("sort=lag&failing=false")).order).toBe("lag");
});
