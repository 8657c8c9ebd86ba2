import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseReplication } from "./parse-replication.ts";
import { replicationId, transientJobId } from "./replication-id.ts";

const digests = {
  md5: (bytes: Uint8Array) => new Uint8Array(createHash("md5").update(bytes).digest()),
  createMd5: () => {
    throw new Error("Not needed here");
  },
};

const context = (serverUuid: string) => ({
  digests,
  serverUuid,
  serverUrl: "http://127.0.0.1:5984/",
});

const UUID = "0123456789abcdef0123456789abcdef";
const SNEK = { source: "http://srchost.local/src", target: "http://tgthost.local/tgt" };

test.each([
  ["an unfiltered replication", SNEK, "4ef747bd8669718dd8ec7c7dc2184c6f"],
  ["document ids", { ...SNEK, doc_ids: ["b", "a"] }, "50a789805b4e283318c67c2f73985f40"],
  ["a selector", { ...SNEK, selector: { a: 1 } }, "232b7ef2c885b3218ad24984e3082c2e"],
  [
    "a view filter",
    { ...SNEK, filter: "_view", query_params: { view: "d/v" } },
    "35d5024ad29c1dc7334e4c775eaef2cb",
  ],
  ["winning revisions", { ...SNEK, winning_revs_only: true }, "c6077dafc42ea63bbec89e7bec3587f4"],
  ["a start sequence", { ...SNEK, since_seq: "3-abc" }, "11e7746dd877b50d403f4af17334d2cd"],
])("%s has the base id that CouchDB computes", (_, body, baseId) => {
  expect(replicationId(context(UUID), parseReplication(body)).baseId).toBe(baseId);
});

test("a user filter's code is part of the id", () => {
  const replication = parseReplication({ ...SNEK, filter: "d/f" });
  const { baseId } = replicationId(context(UUID), replication, "function(doc, req){return true;}");
  expect(baseId).toBe("49074f98af56641737a5f895de36b575");
});

test("a transient job's id differs by user", () => {
  const oneShot = parseReplication(SNEK);
  const continuous = parseReplication({ ...SNEK, continuous: true });
  expect(transientJobId(context(UUID), oneShot, null)).toBe("5f5af834b901377fae93b219fc11317d");
  expect(transientJobId(context(UUID), continuous, "adm")).toBe("775f8af0bf2d56c1fc144d8cea68baba");
});

const fixture = new URL("../../test/fixtures/replication-ids.json", import.meta.url);
const recorded: { uuid: string; vectors: { body: object; id: string }[] } = JSON.parse(
  readFileSync(fixture, "utf8"),
);

test.each(recorded.vectors.map(({ body, id }) => [JSON.stringify(body), body, id] as const))(
  "has the id that a CouchDB 3.5 gave: %s",
  (_, body, id) => {
    const replication = parseReplication({
      continuous: true,
      ...(body as Record<string, unknown>),
    });
    expect(replicationId(context(recorded.uuid), replication).id).toBe(id);
  },
);
