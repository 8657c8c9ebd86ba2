import { describe, expect, test } from "vitest";
import { parseMultipart } from "../../../src/host/http/multipart-parser.ts";
import { parseMediaType } from "../../../src/protocol/index.ts";
import { type Asked, openFilms } from "../api.fixture.ts";
import { COUCHDB_URL, openCouchdbFilms } from "../couchdb.fixture.ts";

interface Part {
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** Nested parts, if this part is itself multipart. */
  readonly parts: readonly Part[];
}

async function partsOf(body: Uint8Array, contentType: string): Promise<Part[]> {
  const { type, parameters } = parseMediaType(contentType);
  if (!type.startsWith("multipart/")) return [];
  const parts: Part[] = [];
  for await (const part of parseMultipart(once(body), parameters.get("boundary") ?? "")) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of part.body) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const headers = Object.fromEntries(part.headers);
    const nested = await partsOf(bytes, headers["content-type"] ?? "");
    parts.push({ headers, text: bytes.toString(), parts: nested });
  }
  return parts;
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

const POSTER = Buffer.from([0, 1, 2, 255]);
const DOCS = [
  {
    _id: "a",
    _rev: "1-a",
    _attachments: { p: { content_type: "image/png", data: POSTER.toString("base64") } },
  },
  { _id: "b", _rev: "1-b" },
];

async function bulkGet({ ask }: Asked, type: string, docs: readonly object[]) {
  await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs: DOCS } });
  const headers = { Accept: type };
  const answer = await ask("POST /films/_bulk_get?revs=true", { body: { docs }, headers });
  expect(answer.status).toBe(200);
  const named = new Map(
    Object.entries(answer.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const contentType = named.get("content-type") ?? "";
  expect(parseMediaType(contentType).type).toBe(type);
  return partsOf(answer.bytes, contentType);
}

const servers: readonly (readonly [string, () => Promise<Asked>])[] = [
  ["local", () => openFilms()],
  ...(COUCHDB_URL === undefined ? [] : [["a CouchDB", openCouchdbFilms] as const]),
];

describe.each(servers)("_bulk_get as multipart: %s", (_, open) => {
  test.each(["multipart/mixed", "multipart/related"])(
    "%s returns one part per requested revision: either the document with its attachments or an error",
    async (type) => {
      const asked = [{ id: "a" }, { id: "b", rev: "1-b" }, { id: "b", rev: "9-x" }, { id: "nope" }];
      const [a, b, missing, unknown, ...rest] = await bulkGet(await open(), type, asked);
      expect(rest).toEqual([]);

      expect(a?.headers).toMatchObject({ "x-doc-id": "a", "x-rev-id": "1-a" });
      const [document, poster] = a?.parts ?? [];
      expect(JSON.parse(document?.text ?? "")).toMatchObject({
        _id: "a",
        _revisions: { start: 1, ids: ["a"] },
        _attachments: { p: { follows: true, length: POSTER.length } },
      });
      expect(poster?.headers).toMatchObject({
        "content-disposition": 'attachment; filename="p"',
        "content-type": "image/png",
      });
      expect(poster?.text).toBe(POSTER.toString());

      expect(b?.headers).toEqual({ "content-type": "application/json" });
      expect(JSON.parse(b?.text ?? "")).toMatchObject({ _id: "b", _rev: "1-b" });

      for (const [part, rev] of [[missing, "9-x"] as const, [unknown, "undefined"] as const]) {
        expect(part?.headers).toEqual({ "content-type": 'application/json; error="true"' });
        expect(JSON.parse(part?.text ?? "")).toMatchObject({
          rev,
          error: "not_found",
          reason: "missing",
        });
      }
    },
  );
});

test("a response with many documents is read in several pages, and contains each document once", async () => {
  const api = await openFilms();
  const docs = Array.from({ length: 500 }, (_, n) => ({ _id: `d${n}`, n }));
  await api.ask("POST /films/_bulk_docs", { body: { docs } });
  const parts = await bulkGet(
    api,
    "multipart/mixed",
    docs.map(({ _id }) => ({ id: _id })),
  );
  expect(parts.map(({ text }) => JSON.parse(text).n)).toEqual(docs.map(({ n }) => n));
});

test("a missing database causes a 404", async () => {
  const { ask } = await openFilms();
  const headers = { Accept: "multipart/mixed" };
  const answer = await ask("POST /nowhere/_bulk_get", { body: { docs: [] }, headers });
  expect(answer.status).toBe(404);
});
