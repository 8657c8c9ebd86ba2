/**
 * Contract tests of the replicator's endpoint interface. Every implementation has to pass these
 * tests.
 */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import {
  type ChangedDocument,
  compareDatabases,
  type Endpoint,
  isChange,
  type StreamedDocument,
  TextDocument,
} from "../../../src/replicator/index.ts";

const FOREVER = new AbortController().signal;
const ALL = {
  since: 0,
  continuous: false,
  selection: { kind: "all" },
  winningRevisionsOnly: false,
} as const;

function plain(id: string, start: number, hashes: readonly string[], more = "") {
  const revisions = JSON.stringify({ start, ids: hashes });
  const rev = `${start}-${hashes[0]}`;
  return new TextDocument(id, `{"_id":"${id}","_rev":"${rev}","_revisions":${revisions}${more}}`);
}

/**
 * Returns the second revision of a document, with an attachment whose `revpos` is 0. CouchDB stores
 * this value for an attachment written without a `revpos`.
 */
export function unplaced(id: string): TextDocument {
  const data = Buffer.from("bytes of a poster").toString("base64");
  const attachment = `{"content_type":"image/png","revpos":0,"data":"${data}"}`;
  return plain(id, 2, ["b", "a"], `,"_attachments":{"poster":${attachment}}`);
}

/**
 * Returns the names of the attachments that the endpoint sends with a revision, and whether it
 * omits any.
 */
export async function attachmentsRead(
  endpoint: Endpoint,
  request: Parameters<Endpoint["reader"]["readRevision"]>[0],
): Promise<{ hasStubs: boolean; sent: readonly string[] } | undefined> {
  let read: { hasStubs: boolean; sent: readonly string[] } | undefined;
  const consume = async ({ hasStubs, outline }: StreamedDocument): Promise<void> => {
    read = { hasStubs, sent: outline.map(({ name }) => name) };
  };
  await endpoint.reader.readRevision(request, consume, FOREVER);
  return read;
}

/**
 * Writes the first revision of a document, with one attachment that is stored compressed or
 * uncompressed.
 */
async function writePoster(
  endpoint: Endpoint,
  id: string,
  { bytes, encoding }: { bytes: Uint8Array; encoding: "gzip" | undefined },
): Promise<void> {
  const stored = encoding === undefined ? bytes : gzipSync(bytes);
  const encoded =
    encoding === undefined ? "" : `,"encoding":"gzip","encoded_length":${stored.length}`;
  const outline = { name: "p ü", length: stored.length, contentType: "image/png", encoding };
  const attachments = `,"_attachments":{"p ü":{"content_type":"image/png","revpos":1,"length":${bytes.length}${encoded},"follows":true}}`;
  const document: StreamedDocument = {
    ...plain(id, 1, ["a"], attachments),
    hasStubs: false,
    outline: [outline],
    attachments: (async function* () {
      yield { ...outline, body: once(stored) };
    })(),
  };
  expect(await endpoint.writer.writeDocument(document, FOREVER)).toEqual({ kind: "written" });
}

const HASH = "967a00dff5e02add41819138abb3284d";

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function changesOf(endpoint: Endpoint, request: Parameters<Endpoint["changes"]>[0] = ALL) {
  const changes: ChangedDocument[] = [];
  for await (const items of endpoint.changes(request, FOREVER)) {
    changes.push(...items.filter(isChange));
  }
  return changes;
}

/** `open` returns an endpoint whose database does not exist yet. */
export function endpointTests(open: () => Promise<Endpoint>): void {
  const created = async (): Promise<Endpoint> => {
    const endpoint = await open();
    await endpoint.create({}, FOREVER);
    return endpoint;
  };

  test("info fails for a missing database, and create succeeds even if the database exists", async () => {
    const endpoint = await open();
    await expect(endpoint.info(FOREVER)).rejects.toMatchObject({ error: "db_not_found" });
    await endpoint.create({}, FOREVER);
    await endpoint.create({}, FOREVER);
    const { instanceStartTime } = await endpoint.info(FOREVER);
    expect(await endpoint.commit(FOREVER)).toBe(instanceStartTime);
  });

  test("missingRevisions reports each document's missing revisions, and the leaves that may be their ancestors", async () => {
    const endpoint = await created();
    await endpoint.writer.writeDocuments([plain("a", 2, ["b", "a"])], FOREVER);
    const asked = new Map([
      ["a", ["2-b", "3-c"]],
      ["n", ["1-n"]],
      ["k", []],
    ]);
    const missing = await endpoint.missingRevisions(asked, FOREVER);
    expect(missing.get("a")).toEqual({ missing: ["3-c"], possibleAncestors: ["2-b"] });
    expect(missing.get("n")).toEqual({ missing: ["1-n"], possibleAncestors: [] });
    expect(missing.get("k")?.missing ?? []).toEqual([]);
  });

  test("the changes feed contains each document once with all of its leaves, and is empty after the last sequence", async () => {
    const endpoint = await created();
    const documents = [
      plain("a", 1, ["a"]),
      plain("r", 2, ["x", "q"]),
      plain("r", 2, ["y", "q"]),
      plain("gone", 1, ["g"], ',"_deleted":true'),
    ];
    expect(await endpoint.writer.writeDocuments(documents, FOREVER)).toEqual([]);
    const changes = await changesOf(endpoint);
    const rows = changes.map(({ id, revisions }) => [id, [...revisions].sort()]);
    expect(rows.toSorted()).toEqual([
      ["a", ["1-a"]],
      ["gone", ["1-g"]],
      ["r", ["2-x", "2-y"]],
    ]);
    const since = changes.at(-1)?.sequence;
    expect(await changesOf(endpoint, { ...ALL, since })).toEqual([]);
    expect(await endpoint.pendingChangeCount(since, FOREVER)).toBe(0);
    expect(await endpoint.pendingChangeCount(0, FOREVER)).toBe(3);
  });

  test("the source filters by ids and by selector", async () => {
    const endpoint = await created();
    const documents = [plain("a", 1, ["a"], ',"n":1'), plain("b", 1, ["b"], ',"n":2')];
    await endpoint.writer.writeDocuments(documents, FOREVER);
    const byId = { ...ALL, selection: { kind: "doc-ids", ids: ["", "b"] } } as const;
    expect((await changesOf(endpoint, byId)).map(({ id }) => id)).toEqual(["b"]);
    const selector = '{"n":{"$lt":2}}';
    const bySelector = { ...ALL, selection: { kind: "selector", selector } } as const;
    expect((await changesOf(endpoint, bySelector)).map(({ id }) => id)).toEqual(["a"]);
  });

  test("a selector reaches the source with its numbers and member order unchanged", async () => {
    const endpoint = await created();
    const bodies = ["369553424691494900", "369553424691494913", '{"1":1,"0":1.0}', '{"0":1,"1":1}'];
    const documents = bodies.map((body, at) => plain(`${at}`, 1, ["a"], `,"n":${body}`));
    await endpoint.writer.writeDocuments(documents, FOREVER);
    for (const [at, body] of bodies.entries()) {
      const selection = { kind: "selector", selector: `{"n":{"$eq":${body}}}` } as const;
      const changes = await changesOf(endpoint, { ...ALL, selection });
      expect([body, changes.map(({ id }) => id)]).toEqual([body, [`${at}`]]);
    }
  });

  describe("the filtered changes of a conflicted document and a deleted document", () => {
    /**
     * `r` has a losing leaf with n = 1 and a winning leaf with n = 5. `gone` was deleted by a
     * revision with n = 1.
     */
    const opened = async (): Promise<Endpoint> => {
      const endpoint = await created();
      const documents = [
        plain("r", 2, ["x", "q"], ',"n":1'),
        plain("r", 2, ["y", "q"], ',"n":5'),
        plain("gone", 2, ["g", "f"], ',"_deleted":true,"n":1'),
        plain("other", 1, ["o"], ',"n":9'),
      ];
      expect(await endpoint.writer.writeDocuments(documents, FOREVER)).toEqual([]);
      return endpoint;
    };
    const bySelector = (selector: object) =>
      ({ kind: "selector", selector: JSON.stringify(selector) }) as const;

    test.each([
      [
        "all leaves",
        { kind: "all" },
        false,
        [
          ["gone", ["2-g"]],
          ["other", ["1-o"]],
          ["r", ["2-x", "2-y"]],
        ],
      ],
      [
        "winners only",
        { kind: "all" },
        true,
        [
          ["gone", ["2-g"]],
          ["other", ["1-o"]],
          ["r", ["2-y"]],
        ],
      ],
      [
        "all leaves of an id",
        { kind: "doc-ids", ids: ["r", "gone"] },
        false,
        [
          ["gone", ["2-g"]],
          ["r", ["2-x", "2-y"]],
        ],
      ],
      [
        "the winner of an id",
        { kind: "doc-ids", ids: ["r", "gone"] },
        true,
        [
          ["gone", ["2-g"]],
          ["r", ["2-y"]],
        ],
      ],
      [
        "each leaf that a selector matches",
        bySelector({ n: { $lt: 2 } }),
        false,
        [
          ["gone", ["2-g"]],
          ["r", ["2-x"]],
        ],
      ],
      ["winners that a selector matches", bySelector({ n: { $lt: 2 } }), true, [["gone", ["2-g"]]]],
      [
        "a winner that a selector matches, and no loser",
        bySelector({ n: { $gt: 0, $lt: 9 } }),
        true,
        [
          ["gone", ["2-g"]],
          ["r", ["2-y"]],
        ],
      ],
      [
        "deletions that a selector matches",
        bySelector({ _deleted: true }),
        false,
        [["gone", ["2-g"]]],
      ],
    ] as const)("the source reports %s", async (_, selection, winningRevisionsOnly, expected) => {
      const endpoint = await opened();
      const changes = await changesOf(endpoint, { ...ALL, selection, winningRevisionsOnly });
      const rows = changes.map(({ id, revisions }) => [id, [...revisions].sort()]);
      expect(rows.toSorted()).toEqual(expected);
    });
  });

  test("a continuous feed reports changes that are written while it waits", async () => {
    const endpoint = await created();
    const stopping = new AbortController();
    const feed = endpoint.changes({ ...ALL, continuous: true }, stopping.signal);
    const first = (async () => {
      for await (const items of feed) {
        const change = items.find(isChange);
        if (change !== undefined) return change.id;
      }
      return undefined;
    })();
    await endpoint.writer.writeDocuments([plain("late", 1, ["l"])], FOREVER);
    expect(await first).toBe("late");
    stopping.abort();
  });

  test("revisions are read exactly as they were written, including losing leaves and deletions", async () => {
    const endpoint = await created();
    await endpoint.writer.writeDocuments(
      [
        plain("a", 2, ["b", "a"], ',"one":1.5,"text":"é"'),
        plain("a", 2, ["c", "a"], ',"_deleted":true'),
      ],
      FOREVER,
    );
    for (const [revision, more] of [
      ["2-b", { one: 1.5, text: "é" }],
      ["2-c", { _deleted: true }],
    ] as const) {
      const read: unknown[] = [];
      const request = { id: "a", revision, ancestors: [] };
      const exists = await endpoint.reader.readRevision(
        request,
        async ({ text }) => {
          read.push(JSON.parse(text));
        },
        FOREVER,
      );
      expect(exists).toBe(true);
      expect(read).toMatchObject([{ _id: "a", _rev: revision, ...more, _revisions: { start: 2 } }]);
    }
    const bulk = await endpoint.reader.readRevisions(
      [{ id: "a", revision: "2-b", ancestors: [] }],
      FOREVER,
    );
    expect(bulk).toMatchObject([{ kind: "documents", documents: [{ id: "a" }] }]);
  });

  test("large documents are read in bulk, in as many parts as needed", async () => {
    const endpoint = await created();
    const ids = ["a", "b", "c", "d"];
    for (const id of ids) {
      const text = `,"text":"${"x".repeat(2_500_000)}"`;
      expect(await endpoint.writer.writeDocuments([plain(id, 1, ["a"], text)], FOREVER)).toEqual(
        [],
      );
    }
    const requests = ids.map((id) => ({ id, revision: "1-a", ancestors: [] }));
    const read: string[] = [];
    while (read.length < requests.length) {
      const results = await endpoint.reader.readRevisions(requests.slice(read.length), FOREVER);
      expect(results?.length).toBeGreaterThan(0);
      for (const result of results ?? []) {
        const [document] = result.kind === "documents" ? result.documents : [];
        read.push(JSON.parse(document?.text ?? "{}")._id);
      }
    }
    expect(read).toEqual(ids);
  });

  test("reading an unknown revision reports it as missing", async () => {
    const endpoint = await created();
    const request = { id: "a", revision: "1-a", ancestors: [] };
    const exists = await endpoint.reader.readRevision(request, async () => {}, FOREVER);
    expect(exists).toBe(false);
  });

  test("documents with inlined attachments are copied between endpoints, except those with a compressed attachment", async () => {
    const [source, target] = [await created(), await created()];
    const bytes = Buffer.from("bytes of a poster");
    const write = (id: string, encoding: "gzip" | undefined) =>
      writePoster(source, id, { bytes, encoding });
    await write("a", undefined);
    await write("z", "gzip");
    const requests = ["a", "z"].map((id) => ({ id, revision: "1-a", ancestors: [] }));
    const outlined = await source.reader.readRevisions(requests, FOREVER);
    expect(outlined).toMatchObject([{ kind: "separately" }, { kind: "separately" }]);
    const read = await source.reader.readRevisions(requests, FOREVER, { attachments: true });
    expect(read).toMatchObject([{ kind: "documents" }, { kind: "separately" }]);
    const documents = read?.flatMap((each) => (each.kind === "documents" ? each.documents : []));
    expect(documents?.[0]?.length).toBeGreaterThan(bytes.length);
    expect(await target.writer.writeDocuments(documents ?? [], FOREVER)).toEqual([]);
    const arrived = await target.reader.readRevisions(requests.slice(0, 1), FOREVER, {
      attachments: true,
    });
    const [texts, sent] = [arrived, read].map((results) =>
      results?.flatMap((each) =>
        each.kind === "documents" ? each.documents.map(({ text }) => JSON.parse(text)) : [],
      ),
    );
    expect(texts).toEqual(sent);
    expect(texts?.[0]._attachments["p ü"]).toMatchObject({
      content_type: "image/png",
      revpos: 1,
      data: bytes.toString("base64"),
    });
  });

  test("compareDatabases treats attachments with the same bytes as equal, whichever side compressed them", async () => {
    const [source, target] = [await created(), await created()];
    const plainly = { bytes: Buffer.from("bytes of a poster"), encoding: undefined };
    const zipped = { ...plainly, encoding: "gzip" } as const;
    const others = { bytes: Buffer.from("bytes of a coaster"), encoding: "gzip" } as const;
    const rivals = { bytes: Buffer.from("bytes of a roster"), encoding: "gzip" } as const;
    await writePoster(source, "source zips", zipped);
    await writePoster(target, "source zips", plainly);
    await writePoster(source, "target zips", plainly);
    await writePoster(target, "target zips", zipped);
    await writePoster(source, "other bytes", plainly);
    await writePoster(target, "other bytes", rivals);
    await writePoster(source, "other length", plainly);
    await writePoster(target, "other length", others);
    const differences: unknown[] = [];
    const { attachmentCount } = await compareDatabases(source, target, FOREVER, {
      difference: ({ id, attachment }) => differences.push([id, attachment]),
    });
    expect(attachmentCount).toBe(4);
    expect(differences.toSorted()).toEqual([
      ["other bytes", "p ü"],
      ["other length", "p ü"],
    ]);
  });

  test("a document is copied between endpoints with its attachments", async () => {
    const [source, target] = [await created(), await created()];
    const bytes = Buffer.from("bytes of a poster");
    const outline = { name: "p ü", length: bytes.length, contentType: "image/png" };
    const attachments = `,"_attachments":{"p ü":{"content_type":"image/png","revpos":1,"length":${bytes.length},"follows":true}}`;
    const written: StreamedDocument = {
      ...plain("a", 1, ["a"], attachments),
      hasStubs: false,
      outline: [{ ...outline, encoding: undefined }],
      attachments: (async function* () {
        yield { ...outline, encoding: undefined, body: once(bytes) };
      })(),
    };
    expect(await source.writer.writeDocument(written, FOREVER)).toEqual({ kind: "written" });
    const request = { id: "a", revision: "1-a", ancestors: [] };
    const results: unknown[] = [];
    await source.reader.readRevision(
      request,
      async (document) => {
        results.push(await target.writer.writeDocument(document, FOREVER));
      },
      FOREVER,
    );
    expect(results).toEqual([{ kind: "written" }]);
    const arrived: string[] = [];
    await target.reader.readRevision(
      request,
      async ({ attachments: streams }) => {
        for await (const { name, body } of streams) {
          const chunks: Uint8Array[] = [];
          for await (const chunk of body) chunks.push(chunk);
          arrived.push(name, Buffer.concat(chunks).toString());
        }
      },
      FOREVER,
    );
    expect(arrived).toEqual(["p ü", "bytes of a poster"]);
  });

  test("an attachment whose revpos is 0 is sent if the target has no revision of the document", async () => {
    const source = await created();
    await source.writer.writeDocuments([unplaced("a")], FOREVER);
    expect(await attachmentsRead(source, { id: "a", revision: "2-b", ancestors: [] })).toEqual({
      hasStubs: false,
      sent: ["poster"],
    });
  });

  test("writeDocuments writes the other documents if one document cannot be stored", async () => {
    const endpoint = await created();
    const ids = ["a", "_reserved", "c", "d"];
    const documents = ids.map((id) => plain(id, 1, [HASH]));
    const failures = await endpoint.writer.writeDocuments(documents, FOREVER);
    expect(failures).toMatchObject([{ id: "_reserved", revision: `1-${HASH}`, status: 400 }]);
    const asked = new Map(["a", "c", "d"].map((id) => [id, [`1-${HASH}`]]));
    expect((await endpoint.missingRevisions(asked, FOREVER)).size).toBe(0);
  });

  test("a local document is created and replaced", async () => {
    const endpoint = await created();
    expect(await endpoint.readLocal("checkpoint", FOREVER)).toBeUndefined();
    const first = await endpoint.writeLocal("checkpoint", '{"n":1}', undefined, FOREVER);
    const second = await endpoint.writeLocal("checkpoint", '{"n":2}', first, FOREVER);
    const found = await endpoint.readLocal("checkpoint", FOREVER);
    expect(found?.revision).toBe(second);
    expect(JSON.parse(found?.body ?? "")).toMatchObject({ n: 2 });
  });

  test("a log is continued only in the database and at the sequence where its run started", async () => {
    const endpoint = await created();
    const { instanceStartTime: madeAt } = await endpoint.info(FOREVER);
    const next = (body: string, options?: { readonly madeAt?: string }) =>
      endpoint.continueLog("checkpoint", body, FOREVER, options);
    if (!endpoint.continuesLogs) {
      expect(await next(logOf("s1", 0, 1), { madeAt })).toBeUndefined();
      return;
    }
    expect(await next(logOf("s1", 0, 1))).toBeUndefined();
    expect(await next(logOf("s1", 0, 1), { madeAt: "1" })).toBe(false);
    expect(await endpoint.readLocal("checkpoint", FOREVER)).toBeUndefined();
    expect(await next(logOf("s1", 0, 1), { madeAt })).toBe("0-1");
    expect(await next(logOf("s2", 2, 3))).toBe(false);
    expect(await next(logOf("s2", 1, 3))).toBe("0-2");
    const found = await endpoint.readLocal("checkpoint", FOREVER);
    expect(JSON.parse(found?.body ?? "")).toMatchObject({
      session_id: "s2",
      source_last_seq: 3,
      history: [{ session_id: "s2" }, { session_id: "s1" }],
    });
  });
}

/** A replication log with the entry of one run. */
function logOf(session: string, start: number, end: number): string {
  const entry = {
    session_id: session,
    start_last_seq: start,
    end_last_seq: end,
    recorded_seq: end,
  };
  return JSON.stringify({ session_id: session, source_last_seq: end, history: [entry] });
}
