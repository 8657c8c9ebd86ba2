/** All keys of a database, and those of the registry above them. */
import { hexDecode, hexEncode } from "../../base/index.ts";
import {
  type Key,
  type KeyShape,
  type Subspace,
  type TupleItem,
  unpackText,
  Versionstamp,
  type VersionstampedBytes,
} from "../../kv/index.ts";
import { hashDigest, type RevisionParts } from "../revisions/revision.ts";

type Range = { readonly begin: Key; readonly end: Key };

const NAME = 1;
const DATABASE = 2;
const UPDATE = 3;
const UPDATE_OF = 4;
const UPDATED = 5;

/** Key shapes of the registry, below the layer's subspace. */
export const REGISTRY_KEY_SHAPES: readonly KeyShape[] = [
  { key: "(1, name)", value: "DatabaseRecord", note: "uuid, birth, revision limit; by name" },
  { key: "(2, uuid, …)", value: "", note: "all keys of one database" },
  {
    key: "(3, versionstamp)",
    value: "UpdateRecord",
    note: "which database was created, updated or deleted; the latest update of each kind",
  },
  { key: "(4, name, kind, versionstamp)", value: '""', note: "the rows of (3), by database" },
  { key: "(5)", value: "versionstamp", note: "versionstamp of the last row of (3); watched" },
];

export class RegistryKeys {
  readonly #root: Subspace;

  constructor(root: Subspace) {
    this.#root = root;
  }

  database(name: string): Key {
    return this.#root.pack([NAME, name]);
  }

  databases(): Range {
    return this.#root.range([NAME]);
  }

  databaseName(key: Key): string {
    return this.#root.unpack(key)[1] as string;
  }

  newUpdate(userVersion: number): VersionstampedBytes {
    return this.#root.packVersionstamped([UPDATE, Versionstamp.incomplete(userVersion)]);
  }

  update(versionstamp: Versionstamp): Key {
    return this.#root.pack([UPDATE, versionstamp]);
  }

  updates(): Range {
    return this.#root.range([UPDATE]);
  }

  updateVersionstamp(key: Key): Versionstamp {
    return this.#root.unpack(key)[1] as Versionstamp;
  }

  newUpdateOf(name: string, kind: number, userVersion: number): VersionstampedBytes {
    const versionstamp = Versionstamp.incomplete(userVersion);
    return this.#root.packVersionstamped([UPDATE_OF, name, kind, versionstamp]);
  }

  updateOf(name: string, kind: number, versionstamp: Versionstamp): Key {
    return this.#root.pack([UPDATE_OF, name, kind, versionstamp]);
  }

  updatesOf(name: string, kind: number): Range {
    return this.#root.range([UPDATE_OF, name, kind]);
  }

  updateOfVersionstamp(key: Key): Versionstamp {
    return this.#root.unpack(key)[3] as Versionstamp;
  }

  updated(): Key {
    return this.#root.pack([UPDATED]);
  }

  databaseKeys(uuid: string): DatabaseKeys {
    return new DatabaseKeys(this.#root.subspace(DATABASE, hexDecode(uuid) as Uint8Array));
  }
}

const DOCUMENT = 1;
const BODY = 2;
const ATTACHMENTS = 3;
const CHANGE = 4;
const WINNER = 5;
const CHANGED = 6;
const COUNTER = 7;
const LOCAL = 8;
const SECURITY = 9;
const CONTENT = 10;
const CONTENT_CHUNK = 11;
const REFERENCE = 12;
const CONTENT_BY_DIGEST = 13;
const UNREFERENCED = 14;
const SHARE = 15;
const BOUNDARY = 16;
const SWEEP_CURSOR = 17;
const PURGE = 18;
const PURGE_LIMIT = 19;
const INDEXES = 20;
const OLD_BODY = 21;

const COUNTER_NUMBERS = {
  documents: 1,
  deletedDocuments: 2,
  externalBytes: 3,
  activeBytes: 4,
} as const;
export type Counter = keyof typeof COUNTER_NUMBERS;

/**
 * Shapes below `(2, uuid)` of the layer's subspace. A hash is 16 bytes, or a string if it is
 * foreign.
 */
export const DATABASE_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: "(1, id, chunk)",
    value: "DocumentRecord",
    note: "the revision tree; chunk 0 begins with the versionstamp of the document's change",
  },
  { key: "(2, id, generation, hash, chunk)", value: "BodyRecord", note: "one for each leaf" },
  {
    key: "(3, id, generation, hash, chunk)",
    value: "AttachmentListRecord",
    note: "one for each leaf that has attachments",
  },
  { key: "(4, versionstamp)", value: "ChangeRecord", note: "the latest change of each document" },
  {
    key: "(5, id)",
    value: "WinnerRecord",
    note: "one for each document that is not deleted, in byte order of the id",
  },
  {
    key: "(6)",
    value: "versionstamp",
    note: "versionstamp of the last change, empty before the first change; watched",
  },
  {
    key: "(7, counter)",
    value: "counter",
    note: "1: documents, 2: deleted documents, 3: external bytes, 4: active bytes",
  },
  { key: "(8, id, chunk)", value: "LocalRecord", note: "local documents" },
  { key: "(9, chunk)", value: "SecurityRecord", note: "absent until set" },
  {
    key: "(10, content)",
    value: "ContentRecord",
    note: "the content of a completely uploaded attachment",
  },
  {
    key: "(11, content, chunk)",
    value: "bytes",
    note: "65,536 bytes each, the last chunk may be shorter",
  },
  {
    key: "(12, content, id, generation, hash, name)",
    value: '""',
    note: "a leaf that refers to the content",
  },
  {
    key: "(13, digest, encoding, length)",
    value: "content",
    note: "the content that all uploads of the same bytes share",
  },
  {
    key: "(14, sinceMs, content)",
    value: '""',
    note: "content that may be unreferenced; reclaim() checks old entries",
  },
  {
    key: "(15, versionstamp)",
    value: "counter",
    note: "a partial count of changes; the sum of the counts at and after a boundary is the number of changes after it",
  },
  { key: "(16, versionstamp)", value: '""', note: "a boundary" },
  { key: "(17)", value: "versionstamp", note: "the boundary at which the next sweep begins" },
  { key: "(18, number)", value: "PurgeRecord", note: "the latest purges, numbered from 1" },
  { key: "(19)", value: "PurgeLimit", note: "absent until set" },
  { key: "(20, …)", value: "", note: "the indexes of the database: definitions and entries" },
  {
    key: "(21, sinceMs, id, generation, hash)",
    value: "OldBodyRecord",
    note: "when a revision was superseded; its rows under 2, 3 and 12 are kept for a while",
  },
];

/** A revision's hash in a key. */
function hashItem(hash: string): TupleItem {
  return hashDigest(hash) ?? hash;
}

export class DatabaseKeys {
  readonly #database: Subspace;
  /** Offset of the id in a key of the all-docs index. */
  readonly #winnerIdOffset: number;

  constructor(database: Subspace) {
    this.#database = database;
    this.#winnerIdOffset = database.pack([WINNER]).length;
  }

  /** Range of all keys of the database. */
  everything(): Range {
    return this.#database.range();
  }

  document(id: string, chunk: number): Key {
    return this.#database.pack([DOCUMENT, id, chunk]);
  }

  body(id: string, { generation, hash }: RevisionParts, chunk: number): Key {
    return this.#database.pack([BODY, id, generation, hashItem(hash), chunk]);
  }

  /** Range of the bodies of all revisions of a document. */
  bodies(id: string): Range {
    return this.#database.range([BODY, id]);
  }

  /** The revision and chunk number in a key made by `body`. */
  bodyChunk(key: Key): { readonly revision: RevisionParts; readonly chunk: number } {
    const [, , generation, hash, chunk] = this.#database.unpack(key);
    return { revision: revisionOfItems(generation, hash), chunk: chunk as number };
  }

  bodyChunks(id: string, { generation, hash }: RevisionParts): Range {
    return this.#database.range([BODY, id, generation, hashItem(hash)]);
  }

  attachments(id: string, { generation, hash }: RevisionParts, chunk: number): Key {
    return this.#database.pack([ATTACHMENTS, id, generation, hashItem(hash), chunk]);
  }

  attachmentChunks(id: string, { generation, hash }: RevisionParts): Range {
    return this.#database.range([ATTACHMENTS, id, generation, hashItem(hash)]);
  }

  newChange(userVersion: number): VersionstampedBytes {
    return this.#database.packVersionstamped([CHANGE, Versionstamp.incomplete(userVersion)]);
  }

  change(versionstamp: Versionstamp): Key {
    return this.#database.pack([CHANGE, versionstamp]);
  }

  changes(): Range {
    return this.#database.range([CHANGE]);
  }

  changeVersionstamp(key: Key): Versionstamp {
    // Called for each row of a feed. The versionstamp is the last element.
    return Versionstamp.endOf(key);
  }

  winner(id: string): Key {
    return this.#database.pack([WINNER, id]);
  }

  winners(): Range {
    return this.#database.range([WINNER]);
  }

  winnerId(key: Key): string {
    // Called for each row of the index.
    return unpackText(key, this.#winnerIdOffset);
  }

  changed(): Key {
    return this.#database.pack([CHANGED]);
  }

  counter(counter: Counter): Key {
    return this.#database.pack([COUNTER, COUNTER_NUMBERS[counter]]);
  }

  local(id: string, chunk: number): Key {
    return this.#database.pack([LOCAL, id, chunk]);
  }

  localChunks(id: string): Range {
    return this.#database.range([LOCAL, id]);
  }

  locals(): Range {
    return this.#database.range([LOCAL]);
  }

  localPlace(key: Key): { readonly id: string; readonly chunk: number } {
    const [, id, chunk] = this.#database.unpack(key);
    return { id: id as string, chunk: chunk as number };
  }

  security(chunk: number): Key {
    return this.#database.pack([SECURITY, chunk]);
  }

  securityChunks(): Range {
    return this.#database.range([SECURITY]);
  }

  content(contentId: string): Key {
    return this.#database.pack([CONTENT, contentBytes(contentId)]);
  }

  contentChunk(contentId: string, chunk: number): Key {
    return this.#database.pack([CONTENT_CHUNK, contentBytes(contentId), chunk]);
  }

  contentChunks(contentId: string): Range {
    return this.#database.range([CONTENT_CHUNK, contentBytes(contentId)]);
  }

  allContentChunks(): Range {
    return this.#database.range([CONTENT_CHUNK]);
  }

  chunkContent(key: Key): string {
    return hexEncode(this.#database.unpack(key)[1] as Uint8Array);
  }

  reference(contentId: string, id: string, revision: RevisionParts, name: string): Key {
    const { generation, hash } = revision;
    const content = contentBytes(contentId);
    return this.#database.pack([REFERENCE, content, id, generation, hashItem(hash), name]);
  }

  references(contentId: string): Range {
    return this.#database.range([REFERENCE, contentBytes(contentId)]);
  }

  contentByDigest(digest: Uint8Array, encoding: "gzip" | undefined, encodedLength: number): Key {
    return this.#database.pack([CONTENT_BY_DIGEST, digest, encoding ?? "", encodedLength]);
  }

  unreferenced(sinceMs: number, contentId: string): Key {
    return this.#database.pack([UNREFERENCED, sinceMs, contentBytes(contentId)]);
  }

  unreferencedBefore(timeMs: number): Range {
    return {
      begin: this.#database.range([UNREFERENCED]).begin,
      end: this.#database.pack([UNREFERENCED, timeMs]),
    };
  }

  unreferencedContent(key: Key): string {
    return hexEncode(this.#database.unpack(key)[2] as Uint8Array);
  }

  newBoundary(userVersion: number): VersionstampedBytes {
    return this.#database.packVersionstamped([BOUNDARY, Versionstamp.incomplete(userVersion)]);
  }

  boundary(versionstamp: Versionstamp): Key {
    return this.#database.pack([BOUNDARY, versionstamp]);
  }

  boundaries(): Range {
    return this.#database.range([BOUNDARY]);
  }

  boundaryVersionstamp(key: Key): Versionstamp {
    return this.#database.unpack(key)[1] as Versionstamp;
  }

  newShare(userVersion: number): VersionstampedBytes {
    return this.#database.packVersionstamped([SHARE, Versionstamp.incomplete(userVersion)]);
  }

  share(versionstamp: Versionstamp): Key {
    return this.#database.pack([SHARE, versionstamp]);
  }

  shares(): Range {
    return this.#database.range([SHARE]);
  }

  sweepCursor(): Key {
    return this.#database.pack([SWEEP_CURSOR]);
  }

  purge(number: number): Key {
    return this.#database.pack([PURGE, number]);
  }

  purges(): Range {
    return this.#database.range([PURGE]);
  }

  purgeNumber(key: Key): number {
    return this.#database.unpack(key)[1] as number;
  }

  purgeLimit(): Key {
    return this.#database.pack([PURGE_LIMIT]);
  }

  oldBody(sinceMs: number, id: string, { generation, hash }: RevisionParts): Key {
    return this.#database.pack([OLD_BODY, sinceMs, id, generation, hashItem(hash)]);
  }

  oldBodiesBefore(timeMs: number): Range {
    return {
      begin: this.#database.range([OLD_BODY]).begin,
      end: this.#database.pack([OLD_BODY, timeMs]),
    };
  }

  oldBodyRevision(key: Key): { readonly id: string; readonly revision: RevisionParts } {
    const [, , id, generation, hash] = this.#database.unpack(key);
    return {
      id: id as string,
      revision: revisionOfItems(generation, hash),
    };
  }

  /** Subspace of the database's indexes. */
  indexes(): Subspace {
    return this.#database.subspace(INDEXES);
  }
}

function contentBytes(contentId: string): Uint8Array {
  return hexDecode(contentId) as Uint8Array;
}

function revisionOfItems(
  generation: TupleItem | undefined,
  hash: TupleItem | undefined,
): RevisionParts {
  return {
    generation: generation as number,
    hash: typeof hash === "string" ? hash : hexEncode(hash as Uint8Array),
  };
}
