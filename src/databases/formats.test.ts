/**
 * Expected bytes of every kind of stored record. Existing stores contain such records, so changing
 * a line here means a new format, which requires a new format byte and a reader for the old one.
 */
import { expect, test } from "vitest";
import { concatBytes, hexDecode, hexEncode, Utf8Text, utf8Encode } from "../base/index.ts";
import { Versionstamp } from "../kv/index.ts";
import type { Attachment } from "./document.ts";
import {
  decodeAttachmentList,
  decodeAuthoredBody,
  decodeBody,
  decodeLocal,
  decodeSecurity,
  encodeAttachmentList,
  encodeBody,
  encodeLocal,
  encodeSecurity,
} from "./records/body-record.ts";
import {
  decodeChangeRecord,
  decodeWinnerRecord,
  encodeChangeRecord,
  encodeWinnerRecord,
} from "./records/change-record.ts";
import { decodeContentRecord, encodeContentRecord } from "./records/content-record.ts";
import {
  decodeCounter,
  decodeVersionstamp,
  encodeCounter,
  encodeVersionstamp,
} from "./records/counter-record.ts";
import { decodeDatabaseRecord, encodeDatabaseRecord } from "./records/database-record.ts";
import { decodeDocumentRecord, encodeDocumentRecord } from "./records/document-record.ts";
import { decodeOldBody, encodeOldBody } from "./records/old-body-record.ts";
import { pathOf, RevisionTree } from "./revisions/revision-tree.ts";

const DIGEST = "md5-XUFAKrxLKna5cZ2REBfFkg==";
const HASH = "917fa2381192822767f010b95b45325b";
const CONTENT = { digest: DIGEST, encoding: "gzip", length: 300, encodedLength: 25 } as const;
const ATTACHMENT = {
  name: "é.txt",
  contentType: "text/plain",
  revisionPosition: 2,
  ...CONTENT,
  contentId: "0f".repeat(16),
};
const DATABASE = {
  uuid: "a0".repeat(16),
  instanceStartTime: 1_795_266_938_500_467,
  revisionLimit: 1_000,
  indexSet: 0,
  hasWinnerRows: true,
  number: undefined,
};
const CHANGE = {
  id: "d",
  leaves: [
    { generation: 3, hash: HASH, deleted: false },
    { generation: 2, hash: "x", deleted: true },
  ],
  complete: true,
};

/** Builds a test case from a value, its bytes, and its codec. */
function row<T>(
  name: string,
  value: T,
  encode: (value: T) => Uint8Array,
  decode: (bytes: Uint8Array) => T,
  hex: string,
) {
  return {
    name,
    check: () => {
      expect(hexEncode(encode(value))).toBe(hex);
      expect(decode(hexDecode(hex) as Uint8Array)).toEqual(value);
    },
  };
}

const one = (chunks: readonly Uint8Array[]): Uint8Array => {
  expect(chunks).toHaveLength(1);
  return chunks[0] as Uint8Array;
};

const OLD_BODY = {
  bodyChunkCount: 2,
  attachmentChunkCount: 1,
  attachments: [{ contentId: "0f".repeat(16), name: "é.txt" }],
};

const ROWS = [
  row(
    "DatabaseRecord",
    DATABASE,
    encodeDatabaseRecord,
    decodeDatabaseRecord,
    "01a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0f3ea95c192999803e807",
  ),
  row(
    "DatabaseRecord with indexes",
    { ...DATABASE, indexSet: 0xabcdef012345 },
    encodeDatabaseRecord,
    decodeDatabaseRecord,
    "02a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0f3ea95c192999803e807c5c684f8def92a",
  ),
  row(
    "DatabaseRecord without winner rows",
    { ...DATABASE, hasWinnerRows: false },
    encodeDatabaseRecord,
    decodeDatabaseRecord,
    "03a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0f3ea95c192999803e80700",
  ),
  row(
    "DatabaseRecord with indexes, without winner rows",
    { ...DATABASE, indexSet: 0xabcdef012345, hasWinnerRows: false },
    encodeDatabaseRecord,
    decodeDatabaseRecord,
    "03a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0f3ea95c192999803e807c5c684f8def92a",
  ),
  row(
    "DatabaseRecord with a number",
    { ...DATABASE, hasWinnerRows: false, number: 300 },
    encodeDatabaseRecord,
    decodeDatabaseRecord,
    "04a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0f3ea95c192999803e80700ac02",
  ),
  row(
    "BodyRecord",
    '{"é":1}',
    (body) => one(encodeBody(utf8Encode(body))),
    (bytes) => decodeBody([bytes]).text,
    "017b22c3a9223a317d",
  ),
  row(
    "BodyRecord with an authority",
    { text: '{"é":1}', authority: { userName: "joe", wasAdmin: true } },
    ({ text, authority }) => one(encodeBody(utf8Encode(text), undefined, authority)),
    (bytes) => {
      const { text, authority } = decodeAuthoredBody([bytes]);
      return { text: text.text, authority: authority as { userName: string; wasAdmin: boolean } };
    },
    "0322" +
      "7b22757365724e616d65223a226a6f65222c2277617341646d696e223a747275657d" +
      "7b22c3a9223a317d",
  ),
  row(
    "AttachmentListRecord",
    [ATTACHMENT] as Attachment[],
    (list) => one(encodeAttachmentList(list)),
    (bytes) => decodeAttachmentList([bytes]),
    "010106c3a92e7478740a746578742f706c61696e025d41402abc4b2a76b9719d911017c59201ac02190f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
  ),
  row(
    "LocalRecord",
    { revisionNumber: 200, body: "{}" },
    ({ revisionNumber, body }) => one(encodeLocal({ revisionNumber, body: Utf8Text.of(body) })),
    (bytes) => {
      const { revisionNumber, body } = decodeLocal([bytes]);
      return { revisionNumber, body: body.text };
    },
    "0101c8017b7d",
  ),
  row(
    "SecurityRecord",
    '{"admins":{}}',
    (text) => one(encodeSecurity(utf8Encode(text))),
    (bytes) => decodeSecurity([bytes]),
    "01017b2261646d696e73223a7b7d7d",
  ),
  row(
    "ChangeRecord",
    CHANGE,
    ({ id, leaves }) => encodeChangeRecord(id, leaves),
    decodeChangeRecord,
    "0101640102030000917fa2381192822767f010b95b45325b02010178",
  ),
  row(
    "ChangeRecord of a document whose id is 32 hexadecimal digits",
    { ...CHANGE, id: "d7".repeat(16) },
    ({ id, leaves }) => encodeChangeRecord(id, leaves),
    decodeChangeRecord,
    "02d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d70102030000917fa2381192822767f010b95b45325b02010178",
  ),
  row(
    "WinnerRecord",
    { generation: 300, hash: HASH },
    encodeWinnerRecord,
    decodeWinnerRecord,
    "01ac0200917fa2381192822767f010b95b45325b",
  ),
  row(
    "ContentRecord",
    CONTENT as Parameters<typeof encodeContentRecord>[0],
    encodeContentRecord,
    decodeContentRecord,
    "015d41402abc4b2a76b9719d911017c59201ac0219",
  ),
  row(
    "OldBodyRecord",
    { ...OLD_BODY, bytes: 300 },
    encodeOldBody,
    decodeOldBody,
    "020201010f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f06c3a92e747874ac02",
  ),
  row(
    "OldBodyRecord without bytes",
    { ...OLD_BODY, bytes: undefined },
    encodeOldBody,
    decodeOldBody,
    "010201010f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f06c3a92e747874",
  ),
  row("counter", -2, encodeCounter, decodeCounter, "feffffffffffffff"),
  row(
    "versionstamp",
    Versionstamp.fromBytes(new Uint8Array(12).fill(7)),
    encodeVersionstamp,
    decodeVersionstamp,
    "01070707070707070707070707",
  ),
];

test.each(ROWS)("a $name is encoded to the expected bytes, and decoded", ({ check }) => check());

test("a DocumentRecord is encoded to the expected bytes, and decoded", () => {
  const leaf = {
    deleted: false,
    bodyChunkCount: 1,
    bodyBytes: 200,
    attachmentChunkCount: 1,
    attachmentBytes: 300,
    attachmentEncodedBytes: 25,
  };
  const gone = {
    ...leaf,
    deleted: true,
    attachmentChunkCount: 0,
    attachmentBytes: 0,
    attachmentEncodedBytes: 0,
  };
  const tree = new RevisionTree();
  tree.graft({ start: 2, hashes: [HASH, "0".repeat(32)] }, leaf);
  tree.graft({ start: 3, hashes: ["z", "y", "0".repeat(32)] }, gone);
  const { first, more, chunkCount } = encodeDocumentRecord(tree, 5);
  expect([more.length, chunkCount, first.offset]).toEqual([0, 1, 1]);
  const hex =
    "01ffffffffffffffffffff00050102020201c80101ac0219020001917fa2381192822767f010b95b45325b00000000000000000000000000000000030101c801020200017a0179";
  expect(hexEncode(first.bytes)).toBe(hex);
  const read = decodeDocumentRecord([hexDecode(hex) as Uint8Array]);
  expect(read.tree.leaves.map((node) => [pathOf(node), node.leaf])).toEqual([
    [{ start: 2, hashes: [HASH, "0".repeat(32)] }, leaf],
    [{ start: 3, hashes: ["z", "y", "0".repeat(32)] }, gone],
  ]);
});

test("a DocumentRecord with a body is encoded to the expected bytes, and decoded", () => {
  const leaf = {
    deleted: false,
    bodyChunkCount: 0,
    bodyBytes: 2,
    attachmentChunkCount: 1,
    attachmentBytes: 300,
    attachmentEncodedBytes: 25,
    inlineBody: Uint8Array.of(1, 0x7b, 0x7d),
  };
  const tree = new RevisionTree();
  tree.graft({ start: 1, hashes: [HASH] }, leaf);
  const hex =
    "01ffffffffffffffffffff000501010102000201ac02190301" +
    "7b7d010001917fa2381192822767f010b95b45325b";
  expect(hexEncode(encodeDocumentRecord(tree, 5).first.bytes)).toBe(hex);
  const read = decodeDocumentRecord([hexDecode(hex) as Uint8Array]);
  expect(read.tree.leaves.map((node) => node.leaf)).toEqual([leaf]);
});

test("long strings are split at chunk boundaries without copying them", () => {
  const chunkBytes = 90_000;
  for (const byteCount of [1, chunkBytes - 4, chunkBytes - 1, chunkBytes, 3 * chunkBytes - 2]) {
    const text = new Uint8Array(byteCount).fill(0x20);
    const chunkCount = Math.ceil((4 + byteCount) / chunkBytes);
    const records = [
      {
        head: [1],
        encode: () => encodeBody(text),
        rest: (chunks: readonly Uint8Array[]) => decodeBody(chunks).bytes,
      },
      {
        head: [1, chunkCount, 0xc8, 0x01],
        encode: () => encodeLocal({ revisionNumber: 200, body: Utf8Text.encoded(text) }),
        rest: (chunks: readonly Uint8Array[]) => decodeLocal(chunks).body.bytes,
      },
    ];
    for (const { head, encode, rest } of records) {
      const chunks = encode();
      const whole = concatBytes([Uint8Array.from(head), text]);
      expect(concatBytes(chunks)).toEqual(whole);
      expect(chunks).toHaveLength(Math.ceil(whole.length / chunkBytes));
      expect(
        chunks.every(({ length }, at) => length === chunkBytes || at + 1 === chunks.length),
      ).toBe(true);
      expect(chunks.slice(1).every(({ buffer }) => buffer === text.buffer)).toBe(true);
      expect(rest(chunks)).toEqual(text);
    }
  }
});
