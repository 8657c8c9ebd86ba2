/**
 * A source that sends valid documents and also data that no database can store. The valid documents
 * arrive, and the failure list contains the invalid documents.
 */
import { createHash } from "node:crypto";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type FakeAnswer,
  type FakeDocument,
  type FakeSource,
  NOTE,
  openFakeSource,
  withRevisions,
} from "../../support/fake-source.ts";
import { Processes, type TandemNode } from "../../support/open-process.ts";

const processes = new Processes();
let node: TandemNode;
let source: FakeSource;

beforeAll(async () => {
  [node, source] = await Promise.all([processes.openHere(), openFakeSource()]);
});
afterAll(async () => {
  await processes.close();
  await source.close();
});

const HASH = "0".repeat(32);
const GOOD: readonly FakeDocument[] = ["a", "b", "c"].map((_id) => ({ _id, _rev: `1-${HASH}` }));

/** Revisions that CouchDB stores (`couch_doc:parse_rev`), but does not generate. */
const STORED_REVISIONS = ["1-", "9999-", "0-", "0-abc", `0-${HASH}`, "1-a-b", "7-é"];
/** Revisions that CouchDB refuses, or stores under another name. */
const LISTED_REVISIONS = [
  "01-a",
  "+1-a",
  "-1-a",
  "x-a",
  "1",
  "",
  "1.0-a",
  "99999999999999999999-a",
];

const md5 = (bytes: Uint8Array): string =>
  `md5-${createHash("md5").update(bytes).digest("base64")}`;

/** Histories that would make a target store a different revision tree from the source's. */
const HISTORIES = {
  "without its history": {},
  "with the history of another revision": {
    _revisions: { start: 2, ids: ["1".repeat(32), HASH] },
  },
  "with the history of another generation": { _revisions: { ids: [HASH], start: 1 } },
};

interface Part {
  readonly attachment: Readonly<Record<string, unknown>>;
  /** Coding of the part with the document. */
  readonly document?: Coded;
  /** Coding of the part with the attachment. */
  readonly content: Coded;
  /** Coding of the part that encloses the other two. */
  readonly whole?: Coded;
  readonly listed?: string;
}

interface Coded {
  readonly coding?: string;
  readonly encode?: (bytes: Uint8Array) => Uint8Array;
}

const PLAIN_NOTE = {
  content_type: "image/png",
  revpos: 1,
  digest: md5(Buffer.from(NOTE)),
  length: NOTE.length,
  follows: true,
};
const GZIPPED = gzipSync(NOTE);
const STORED_NOTE = {
  ...PLAIN_NOTE,
  digest: md5(GZIPPED),
  encoding: "gzip",
  encoded_length: GZIPPED.length,
};
const CODINGS = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };

const PARTS: Readonly<Record<string, Part>> = {
  ...Object.fromEntries(
    Object.entries(CODINGS).flatMap(([coding, encode]): [string, Part][] => [
      [`of an attachment in ${coding}`, { attachment: PLAIN_NOTE, content: { coding, encode } }],
      [
        `of a document in ${coding}`,
        { attachment: PLAIN_NOTE, content: {}, document: { coding, encode } },
      ],
      [
        `of a document with its attachment in ${coding}`,
        { attachment: PLAIN_NOTE, content: {}, whole: { coding, encode } },
      ],
    ]),
  ),
  "of an attachment stored in gzip": {
    attachment: STORED_NOTE,
    content: { coding: "gzip", encode: () => GZIPPED },
  },
  "of an attachment stored in gzip, without the header": {
    attachment: STORED_NOTE,
    content: { encode: () => GZIPPED },
  },
  "of a plain document that claims to be gzip": {
    attachment: PLAIN_NOTE,
    content: { coding: "gzip" },
    document: { coding: "gzip" },
  },
  "of an attachment in zstd": {
    attachment: PLAIN_NOTE,
    content: { coding: "zstd" },
    listed: 'Content-Encoding "zstd"',
  },
  "of a document in zstd": {
    attachment: PLAIN_NOTE,
    content: {},
    document: { coding: "zstd" },
    listed: 'Content-Encoding "zstd"',
  },
  "of an attachment that is not brotli": {
    attachment: PLAIN_NOTE,
    content: { coding: "br", encode: () => Buffer.from("x".repeat(NOTE.length)) },
    listed: 'Content-Encoding "br"',
  },
};

/** Returns a response to `open_revs` with encoded parts, as CouchDB sends it. */
function multipartAnswer(document: FakeDocument, part: Part): FakeAnswer {
  const pieceOf = (type: string, { coding, encode = (it) => it }: Coded, body: Uint8Array) => [
    `\r\nContent-Type: ${type}\r\n`,
    coding === undefined ? "" : `Content-Encoding: ${coding}\r\n`,
    "\r\n",
    encode(body),
  ];
  const join = (pieces: readonly (string | Uint8Array)[]): Buffer =>
    Buffer.concat(pieces.map((piece) => Buffer.from(piece as string)));
  const headers = { "content-type": 'multipart/mixed; boundary="out"' };
  const text = Buffer.from(JSON.stringify(withRevisions(document)));
  const inner = join([
    ...["--in", ...pieceOf("application/json", part.document ?? {}, text)],
    ...["\r\n--in", ...pieceOf("image/png", part.content, Buffer.from(NOTE)), "\r\n--in--"],
  ]);
  const outer =
    document._attachments === undefined
      ? pieceOf("application/json", {}, text)
      : pieceOf('multipart/related; boundary="in"', part.whole ?? {}, inner);
  return { headers, body: join(["--out", ...outer, "\r\n--out--"]) };
}

/**
 * Targets by name. The value is whether the job addresses the database by its URL rather than by
 * its name alone.
 */
const TARGETS = { local: false, remote: true };

async function start(
  name: string,
  { continuous, isRemote, more = {} }: { continuous: boolean; isRemote: boolean; more?: object },
): Promise<void> {
  await node.call("PUT", `/${name}`);
  await node.call("PUT", `/_replicator/${name}`, {
    source: `${source.url}/${name}`,
    target: isRemote ? `${node.url}/${name}` : name,
    continuous,
    ...more,
  });
}

/**
 * Resolves to the status of the job: after it has completed or, if it is continuous, after it has
 * read all changes.
 */
async function settled(
  name: string,
  {
    continuous,
    arrived,
    listed: listedCount,
  }: { continuous: boolean; arrived: number; listed: number },
) {
  return node.onceAnswered(
    async () => {
      const { body: job } = await node.call("GET", `/_scheduler/docs/_replicator/${name}`);
      const { body: all } = await node.call("GET", `/${name}/_all_docs`);
      const path = `/_tandem/jobs/${encodeURIComponent(`_replicator/${name}`)}/failures`;
      const { body: listed } = await node.call("GET", path);
      const ids: string[] = all.rows.map(({ id }: FakeDocument) => id);
      return { job, ids, failures: (listed.failures ?? []) as Record<string, unknown>[] };
    },
    ({ job, ids, failures }) =>
      ["completed", "failed", "crashing"].includes(job.state) ||
      (continuous &&
        job.state === "running" &&
        job.info?.through_seq != null &&
        ids.length >= arrived &&
        failures.length >= listedCount),
  );
}

describe.each(Object.entries(TARGETS))("to a %s target", (target, isRemote) => {
  describe.each([
    ["one-shot", false],
    ["continuous", true],
  ])("by a %s job", (kind, continuous) => {
    const nameOf = (what: string): string => `${what}-${target}-${kind}`;

    test.each(["json", "none"] as const)(
      "a document whose id has an unpaired surrogate is listed (bulk read: %s)",
      async (bulkGet) => {
        const name = nameOf(`id-${bulkGet}`);
        const odd = { _id: "x\ud83dy", _rev: `1-${HASH}` };
        source.databases.set(name, {
          documents: [GOOD[0], odd, ...GOOD.slice(1)] as FakeDocument[],
          bulkGet,
        });
        await start(name, { continuous, isRemote });
        const { job, ids, failures } = await settled(name, { continuous, arrived: 3, listed: 1 });
        expect(job).toMatchObject({ state: continuous ? "running" : "completed", error_count: 0 });
        expect(ids).toEqual(["a", "b", "c"]);
        expect(failures).toEqual([expect.objectContaining({ id: "x\ud83dy", phase: "read" })]);
      },
    );

    test.each(["json", "none"] as const)(
      "a document whose attachment name has an unpaired surrogate is listed (bulk read: %s)",
      async (bulkGet) => {
        const name = nameOf(`name-${bulkGet}`);
        const attachment = {
          content_type: "image/png",
          revpos: 1,
          digest: "md5-x",
          length: NOTE.length,
        };
        const content = bulkGet === "json" ? { data: btoa(NOTE) } : { stub: true };
        const odd = {
          _id: "b-odd",
          _rev: `1-${HASH}`,
          _attachments: { "x\ud83d": { ...attachment, ...content } },
        };
        source.databases.set(name, { documents: [...GOOD, odd], bulkGet });
        await start(name, { continuous, isRemote });
        const { job, ids, failures } = await settled(name, { continuous, arrived: 3, listed: 1 });
        expect(job).toMatchObject({ state: continuous ? "running" : "completed", error_count: 0 });
        expect(ids).toEqual(["a", "b", "c"]);
        expect(failures).toEqual([expect.objectContaining({ id: "b-odd" })]);
      },
    );

    test("a sequence with an unpaired surrogate is stored in checkpoints, and sent unchanged when the job resumes", async () => {
      const name = nameOf("sequence");
      source.databases.set(name, { documents: GOOD, sequence: (number) => `${number}-\ud83d` });
      await start(name, { continuous, isRemote, more: { checkpoint_interval: 100 } });
      const { body: job } = await node.onceAnswered(
        () => node.call("GET", `/_scheduler/docs/_replicator/${name}`),
        ({ body: { state, info } }) =>
          state === "crashing" || info?.checkpointed_source_seq === "3-\ud83d",
      );
      expect(job).toMatchObject({ state: continuous ? "running" : "completed", error_count: 0 });
      if (!continuous) {
        const target = isRemote ? `${node.url}/${name}` : name;
        const body = { source: `${source.url}/${name}`, target };
        const { body: again } = await node.call("POST", "/_replicate", body);
        expect(again).toMatchObject({ ok: true, no_changes: true });
      }
      const isContinued = (it: string): boolean =>
        it.includes(`/${name}/_changes`) && it.includes("since=3-%ED%A0%BD");
      await node.onceAnswered(
        async () => source.requests,
        (requests) => requests.some(isContinued),
      );
    });

    test.each(["json", "none"] as const)(
      "unusual revisions are stored as CouchDB stores them, or their documents are listed; other documents arrive (bulk read: %s)",
      async (bulkGet) => {
        const name = nameOf(`revisions-${bulkGet}`);
        const document = (_rev: string, index: number) => ({ _id: `${index}`, _rev });
        const stored = STORED_REVISIONS.map(document);
        const listed = LISTED_REVISIONS.map((_rev, index) => ({ _id: `x${index}`, _rev }));
        const conflict = { _id: "a", _rev: "1-" };
        const documents = [...stored, GOOD[0], conflict, ...listed, ...GOOD.slice(1)];
        source.databases.set(name, { documents: documents as FakeDocument[], bulkGet });
        await start(name, { continuous, isRemote });
        const arrived = stored.length + GOOD.length;
        const { job, ids, failures } = await settled(name, {
          continuous,
          arrived,
          listed: listed.length,
        });
        expect(job).toMatchObject({ state: continuous ? "running" : "completed", error_count: 0 });
        expect(ids).toEqual([...stored, ...GOOD].map(({ _id }) => _id).sort());
        for (const { _id, _rev } of stored) {
          const { body } = await node.call("GET", `/${name}/${_id}`);
          expect(body).toEqual({ _id, _rev });
        }
        const { body } = await node.call("GET", `/${name}/a?conflicts=true`);
        expect(body).toEqual({ _id: "a", _rev: `1-${HASH}`, _conflicts: ["1-"] });
        const shown = failures.map(({ id, rev }) => ({ _id: id, _rev: rev }));
        expect(new Set(shown)).toEqual(new Set(listed));
      },
    );

    test.each(
      Object.entries(HISTORIES).flatMap(([what, history]) =>
        (["json", "none"] as const).map((bulkGet) => ({ what, history, bulkGet })),
      ),
    )(
      "a document $what is listed, and the other documents arrive (bulk read: $bulkGet)",
      async ({ what, history, bulkGet }) => {
        const name = nameOf(`${what.replaceAll(/[^a-z]+/g, "-")}-${bulkGet}`);
        const odd = { _id: "b", _rev: `2-${HASH}` };
        source.databases.set(name, {
          documents: [...GOOD.filter(({ _id }) => _id !== "b"), odd],
          bulkGet,
          sent: (document) =>
            document._id === "b" ? { ...document, ...history } : withRevisions(document),
        });
        await start(name, { continuous, isRemote });
        const { job, ids, failures } = await settled(name, { continuous, arrived: 2, listed: 1 });
        expect(job).toMatchObject({ state: continuous ? "running" : "completed", error_count: 0 });
        expect(ids).toEqual(["a", "c"]);
        expect(failures).toEqual([
          expect.objectContaining({ id: "b", phase: "read", rev: `2-${HASH}` }),
        ]);
        expect(failures[0]?.reason).toContain("revision_history_missing");
      },
    );

    test.each(Object.entries(PARTS))(
      "a part %s arrives, or only the document of the part is listed",
      async (what, part) => {
        const name = nameOf(`part-${what.replaceAll(/[^a-z]+/g, "-")}`);
        const odd = { ...GOOD[1], _attachments: { "note.txt": part.attachment } } as FakeDocument;
        const documents = [GOOD[0] as FakeDocument, odd, GOOD[2] as FakeDocument];
        const openRevisions = (found: readonly FakeDocument[]): FakeAnswer =>
          multipartAnswer(found[0] as FakeDocument, part);
        source.databases.set(name, { documents, bulkGet: "none", openRevisions });
        await start(name, { continuous, isRemote, more: { retries_per_request: 1 } });
        const isListed = part.listed !== undefined;
        const { job, ids, failures } = await settled(name, {
          continuous,
          arrived: isListed ? 2 : 3,
          listed: isListed ? 1 : 0,
        });
        expect(job).toMatchObject({ state: continuous ? "running" : "completed", error_count: 0 });
        const reasons = failures.map(({ id, reason }) => `${id} ${reason}`);
        expect(reasons).toEqual(isListed ? [expect.stringContaining(part.listed as string)] : []);
        expect(ids).toEqual(isListed ? ["a", "c"] : ["a", "b", "c"]);
        if (isListed) return;
        const { body } = await node.call("GET", `/${name}/b?att_encoding_info=true`);
        const { encoding, digest, length } = body._attachments["note.txt"];
        expect({ encoding, length }).toEqual({
          encoding: part.attachment.encoding,
          length: NOTE.length,
        });
        if (encoding === "gzip") expect(digest).toBe(part.attachment.digest);
        expect(await (await fetch(`${node.url}/${name}/b/note.txt`)).text()).toBe(NOTE);
      },
    );
  });
});
