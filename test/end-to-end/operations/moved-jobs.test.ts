/** A replication begun by any version of CouchDB resumes on a node from the checkpoint. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { parseReplication, replicationId } from "../../../src/replicator/index.ts";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";

const UUID = "00112233445566778899aabbccddeeff";
const processes = new Processes();
const films = sampleLines("films").slice(0, 30);
let node: TandemNode;

beforeAll(async () => {
  const ini = `[couchdb]\nuuid = ${UUID}\n[tandem]\nnode_name = couchdb@old-host\n`;
  node = await processes.openHere({ ini });
});
afterAll(() => processes.close());

test.each([
  ["version 4 with a token in its headers", 0],
  ["version 3", 1],
  ["version 2", 2],
  ["version 1", 3],
])(
  "a checkpoint under an id of %s is found, and a new one is written under the current id",
  async (_, index) => {
    const database = `films-${index}`;
    await load(node, database, films);
    const body = {
      source: { url: `${node.url}/${database}`, headers: { Authorization: "Bearer a.b" } },
      target: `${database}-copy`,
      create_target: true,
    };
    const context = {
      digests: createSystemRuntime().digests,
      serverUuid: UUID,
      hostName: "old-host",
      port: 0,
      serverUrl: "http://127.0.0.1:5984/",
    };
    const { baseId, olderBaseIds } = replicationId(context, parseReplication(body));
    expect(olderBaseIds).toHaveLength(4);
    const { body: changes } = await node.call("GET", `/${database}/_changes?limit=20`);
    const entry = { session_id: "s", recorded_seq: changes.last_seq, docs_written: 20 };
    const log = { session_id: "s", source_last_seq: changes.last_seq, history: [entry] };
    await node.call("PUT", `/${database}-copy`);
    // The replicator searches for older checkpoints only if the target is not empty.
    await node.call("PUT", `/${database}-copy/other`, {});
    for (const side of [database, `${database}-copy`]) {
      const path = `/${side}/_local/${olderBaseIds[index]}`;
      expect((await node.call("PUT", path, log)).status).toBe(201);
    }
    const { status, body: result } = await node.call("POST", "/_replicate", body);
    expect([status, result.history?.[0].start_last_seq]).toEqual([200, changes.last_seq]);
    const { body: copy } = await node.call("GET", `/${database}-copy`);
    expect(copy.doc_count).toBe(11);
    expect((await node.call("GET", `/${database}/_local/${baseId}`)).status).toBe(200);
  },
);
