import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { replicationMembers } from "./parse-fields.ts";
import { parseReplication } from "./parse-replication.ts";
import { baseIdOf, replicationId, transientJobId } from "./replication-id.ts";

const unused = (): never => {
  throw new Error("Not needed here");
};
const digests = {
  md5: unused,
  md5Hex: (bytes: Uint8Array) => createHash("md5").update(bytes).digest("hex"),
  createMd5: unused,
  sha1Hex: unused,
};

const context = (serverUuid: string) => ({
  digests,
  serverUuid,
  hostName: "host",
  port: 5984,
  serverUrl: "http://127.0.0.1:5984/",
});

const UUID = "0123456789abcdef0123456789abcdef";
const SNEK = { source: "http://srchost.local/src", target: "http://tgthost.local/tgt" };

test.each([
  ["an unfiltered replication", SNEK, "4ef747bd8669718dd8ec7c7dc2184c6f"],
  ["document ids", { ...SNEK, doc_ids: ["b", "a"] }, "50a789805b4e283318c67c2f73985f40"],
  [
    "document ids, twice",
    { ...SNEK, doc_ids: ["b", "a", "b"] },
    "50a789805b4e283318c67c2f73985f40",
  ],
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

test.each([
  [[], "c249989e295f1e684903201d917bcad2"],
  [[""], "c2549badd0fe02032001ae9f7ad34bbe"],
  [["", "a"], "8ec0620ccb7bc6e399b84c18b3627343"],
  [["a", "", "a"], "8ec0620ccb7bc6e399b84c18b3627343"],
  [["b", "a", "", ""], "1eb6a1fd5565e21bf2dd476f24fe1565"],
])("the document ids %j change the base id as in CouchDB 3.5", (doc_ids, baseId) => {
  const url = (name: string): string => `http://admin:password@127.0.0.1:15984/${name}`;
  const replication = parseReplication({ source: url("idsrc"), target: url("idtgt"), doc_ids });
  expect(replicationId(context("fake_uuid_for_dev"), replication).baseId).toBe(baseId);
});

test("a user filter's code is part of the id", () => {
  const replication = parseReplication({ ...SNEK, filter: "d/f" });
  const { baseId } = replicationId(context(UUID), replication, "function(doc, req){return true;}");
  expect(baseId).toBe("49074f98af56641737a5f895de36b575");
});

test("hashing many document ids in pieces yields the same id", () => {
  const doc_ids = Array.from({ length: 3_000 }, (_, at) => `document-${at}`);
  let pieceCount = 0;
  const inPieces = {
    ...digests,
    md5Hex: unused,
    createMd5: () => {
      const md5 = createHash("md5");
      return {
        update: (bytes: Uint8Array) => {
          pieceCount++;
          md5.update(bytes);
        },
        digest: () => new Uint8Array(md5.digest()),
      };
    },
  };
  const { baseId } = replicationId(
    { ...context(UUID), digests: inPieces },
    parseReplication({ ...SNEK, doc_ids }),
  );
  expect(baseId).toBe("9bd75785d047739fa3c239eae8a65cb2");
  expect(pieceCount).toBeGreaterThan(5);
});

test("the id of a transient job differs between users", () => {
  const oneShot = parseReplication(SNEK);
  const continuous = parseReplication({ ...SNEK, continuous: true });
  expect(transientJobId(context(UUID), oneShot, null)).toBe("5f5af834b901377fae93b219fc11317d");
  expect(transientJobId(context(UUID), continuous, "adm")).toBe("775f8af0bf2d56c1fc144d8cea68baba");
});

interface Recorded {
  readonly uuid: string;
  readonly vectors: readonly {
    readonly body: Readonly<Record<string, unknown>>;
    readonly id: string;
    /** Source code of the user filter. */
    readonly filterCode?: string;
    /** Whether a header contains a token or cookie, which affects CouchDB's id but not ours. */
    readonly credentialInHeaders?: boolean;
    /** Reason why our id intentionally differs from CouchDB's. */
    readonly differs?: string;
  }[];
}

describe.each(["replication-ids.json", "replication-ids-2.json"])("the ids of %s", (name) => {
  const file = new URL(`../../../test/fixtures/${name}`, import.meta.url);
  const { uuid, vectors }: Recorded = JSON.parse(readFileSync(file, "utf8"));

  test.each(vectors.map((vector) => [JSON.stringify(vector.body), vector] as const))(
    "match the ids that CouchDB 3.5 computes: %s",
    (_, { body, id, filterCode, credentialInHeaders = false, differs }) => {
      const replication = parseReplication({ continuous: true, ...body });
      const ours = replicationId(context(uuid), replication, filterCode);
      if (differs !== undefined) expect(ours.id).not.toBe(id);
      else if (!credentialInHeaders) expect(ours.id).toBe(id);
      else expect(ours.olderBaseIds[0]).toBe(baseIdOf(id));
    },
  );
});

test("a token affects neither the replication id nor the id of the transient job", () => {
  const withToken = (token: string) =>
    parseReplication({ ...SNEK, source: { url: SNEK.source, auth: { bearer: { token } } } });
  const withKey = (key: string) =>
    parseReplication({ ...SNEK, source: { url: SNEK.source, auth: { iam: { api_key: key } } } });
  const withClient = (client_id: string, client_secret: string) => {
    const auth = { oauth2: { token_url: "https://idp/token", client_id, client_secret } };
    return parseReplication({ ...SNEK, source: { url: SNEK.source, auth } });
  };
  const bodies = [
    parseReplication(SNEK),
    ...[withToken("a"), withToken("b"), withToken("identity:a")],
    withKey("a"),
    ...[withClient("a", "b"), withClient("c", "d")],
  ];
  const ids = bodies.map((body) => replicationId(context(UUID), body).id);
  expect(new Set(ids).size).toBe(1);
  const jobIds = bodies.map((body) => transientJobId(context(UUID), body, null));
  expect(new Set(jobIds).size).toBe(1);
});

test("older ids equal CouchDB's ids of versions 3, 2 and 1", () => {
  // Terms in the older versions of couch_replicator_ids: [uuid, source, target], [host, port,
  // source, target], [host, source, target].
  const { olderBaseIds } = replicationId(context(UUID), parseReplication(SNEK));
  const md5 = (hex: string): string =>
    createHash("md5").update(Buffer.from(hex, "hex")).digest("hex");
  const text = (tag: string, lengthDigits: number, value: string): string =>
    tag +
    value.length.toString(16).padStart(lengthDigits, "0") +
    Buffer.from(value).toString("hex");
  const charlist = (value: string): string => text("6b", 4, value);
  const endpoint = (url: string): string =>
    `6803${text("64", 4, "remote")}${charlist(`${url}/`)}6a`;
  const sides = endpoint(SNEK.source) + endpoint(SNEK.target);
  expect(olderBaseIds).toEqual([
    md5(`836c00000003${text("6d", 8, UUID)}${sides}6a`),
    md5(`836c00000004${charlist("host")}6200001760${sides}6a`),
    md5(`836c00000003${charlist("host")}${sides}6a`),
  ]);
});

describe("numbers in a filter", () => {
  const idOf = (member: string): string => {
    const body = `{"source":"${SNEK.source}","target":"${SNEK.target}",${member}}`;
    return replicationId(context(UUID), parseReplication(replicationMembers(body))).id;
  };

  test.each([
    [
      "selector",
      ['{"n":369553424691494913}', '{"n":369553424691494914}', '{"n":369553424691494912}'],
    ],
    ["selector", ['{"n":1}', '{"n":1.0}', '{"n":1.5}']],
    ["selector", ['{"n":0}', '{"n":0.0}', '{"n":-0.0}']],
    ["since_seq", ["9007199254740992", "9007199254740993", "9007199254740992.0"]],
    ['filter":"a/b","query_params', ['{"n":1000}', '{"n":1e3}', '{"n":9007199254740993}']],
  ])("change the replication id if their form differs: %s %j", (name, values) => {
    const ids = values.map((value) => idOf(`"${name}":${value}`));
    expect(new Set(ids).size).toBe(values.length);
  });

  test("give the same replication id if they are equal as Erlang terms", () => {
    expect(idOf('"selector":{"n":1.0}')).toBe(idOf('"selector":{"n":1.00}'));
    expect(idOf('"selector":{"n":1e3}')).toBe(idOf('"selector":{"n":1000.0}'));
    expect(idOf('"selector":{"n":0}')).toBe(idOf('"selector":{"n":-0}'));
  });

  test("are sorted as strings if they are member names, as in CouchDB", () => {
    const sorted = '"selector":{"o":{"$eq":{"10":1,"9":2}}}';
    expect(idOf('"selector":{"o":{"$eq":{"9":2,"10":1}}}')).toBe(idOf(sorted));
    // As Erlang strings, "10" sorts before "9".
    const body = replicationMembers(`{"source":"a","target":"b",${sorted}}`);
    const { selection } = parseReplication(body);
    expect(selection).toEqual({ kind: "selector", selector: '{"o":{"$eq":{"10":1,"9":2}}}' });
  });
});
