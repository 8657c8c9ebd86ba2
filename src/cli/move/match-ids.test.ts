import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import { parseReplication, replicationId } from "../../replicator/index.ts";
import { matchIds } from "./match-ids.ts";

const { digests } = createSystemRuntime();
const HERE = "a".repeat(32);
const THERE = "b".repeat(32);
const context = (serverUuid: string) => ({
  digests,
  serverUuid,
  hostName: "",
  port: 0,
  serverUrl: "",
});
const plain = parseReplication({ source: "http://a/a", target: "http://b/b", continuous: true });
const filtered = parseReplication({ source: "http://a/a", target: "http://b/b", filter: "d/f" });
const withToken = parseReplication({
  source: { url: "http://a/a", headers: { Authorization: "Bearer a.b" } },
  target: "http://b/b",
});

test.each([
  ["same", plain, replicationId(context(HERE), plain).id, undefined],
  ["uuid", plain, replicationId(context(THERE), plain).id, undefined],
  ["other", plain, "0".repeat(32), undefined],
  ["unknown", plain, null, undefined],
  ["older", withToken, replicationId(context(HERE), withToken).olderBaseIds[0] ?? "", undefined],
  ["uuid", withToken, replicationId(context(THERE), withToken).olderBaseIds[0] ?? "", undefined],
  ["same", filtered, replicationId(context(HERE), filtered, "code").id, "code"],
  ["other", filtered, replicationId(context(HERE), filtered, "code").id, "other code"],
] as const)("%s (%#)", (expected, replication, shown, filterCode) => {
  const facts = { shown, ...(filterCode === undefined ? {} : { filterCode }) };
  expect(matchIds(digests, replication, facts, { here: HERE, there: THERE })).toBe(expected);
});
