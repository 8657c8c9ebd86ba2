/** All keys of a database, and those of the registry above them. */
import { hexDecode, hexEncode } from "../../base/index.ts";
import {
  type Key,
  type KeyBounds,
  type KeyShape,
  type KeysOf,
  keyRow,
  keyShapes,
  keyTable,
  type Subspace,
  type TupleItem,
  type Versionstamp,
} from "../../kv/index.ts";
import { hashDigest, type RevisionParts } from "../revisions/revision.ts";
import type { DatabaseRecord } from "./database-record.ts";

type NoElements = Record<never, never>;

/** Number of the subspace that contains all databases. */
const DATABASE = 2;
/** Number of the subspace for the indexes of a database. */
const INDEXES = 20;

const REGISTRY_ROWS = {
  database: keyRow<{ name: string }>(
    1,
    ["name"],
    "DatabaseRecord",
    "uuid, birth, revision limit; by name",
  ),
  update: keyRow<{ versionstamp: Versionstamp }>(
    3,
    ["versionstamp"],
    "UpdateRecord",
    "the latest creation, update or deletion of a database",
  ),
  updateOf: keyRow<{ name: string; kind: number; versionstamp: Versionstamp }>(
    4,
    ["name", "kind", "versionstamp"],
    '""',
    "index of the rows of (3) by database",
  ),
  updated: keyRow<NoElements>(
    5,
    [],
    "versionstamp",
    "versionstamp of the last row of (3); watched",
  ),
  conflictCount: keyRow<{ name: string }>(
    6,
    ["name"],
    "counter",
    "number of documents with conflicts in a database; absent until the first conflict",
  ),
  times: keyRow<NoElements>(7, [], "TimeTable", "versions of the store at earlier times"),
  conflictPolicy: keyRow<{ name: string }>(
    8,
    ["name"],
    "PolicyRecord",
    "how conflicts are resolved, by database; absent until set",
  ),
  lastNumber: keyRow<NoElements>(9, [], "counter", "the highest number of a database so far"),
  number: keyRow<{ number: number }>(10, ["number"], "", "never stored; conflict key of creations"),
};

/** Key shapes of the registry, below the layer's subspace. */
export const REGISTRY_KEY_SHAPES: readonly KeyShape[] = withGap(keyShapes(REGISTRY_ROWS), 1, {
  key: "(2, number, …)",
  value: "",
  note: "the keys of a database; the uuid instead, if it has no number",
});

const registryTable = keyTable(REGISTRY_ROWS);

export interface RegistryKeys extends KeysOf<typeof REGISTRY_ROWS> {
  databaseKeys(record: Pick<DatabaseRecord, "uuid" | "number">): DatabaseKeys;
}

export function registryKeys(root: Subspace): RegistryKeys {
  const databaseKeys: RegistryKeys["databaseKeys"] = ({ uuid, number }) =>
    databaseKeysIn(root.subspace(DATABASE, number ?? (hexDecode(uuid) as Uint8Array)));
  return Object.assign(registryTable(root), { databaseKeys });
}

/** Elements that identify a leaf. The hash is 16 bytes, or a string if it is foreign. */
type LeafElements = { id: string; generation: number; hash: TupleItem };

/** Id of stored content, as part of a key. */
type ContentElement = { content: Uint8Array };

const ROWS = {
  document: keyRow<{ id: string; chunk: number }>(
    1,
    ["id", "chunk"],
    "DocumentRecord",
    "the revision tree, and the body of a leaf if it is short; chunk 0 begins with the versionstamp of the document's change",
  ),
  body: keyRow<LeafElements & { chunk: number }>(
    2,
    ["id", "generation", "hash", "chunk"],
    "BodyRecord",
    "one for each leaf whose body is not in the DocumentRecord",
  ),
  attachments: keyRow<LeafElements & { chunk: number }>(
    3,
    ["id", "generation", "hash", "chunk"],
    "AttachmentListRecord",
    "one for each leaf that has attachments",
  ),
  change: keyRow<{ versionstamp: Versionstamp }>(
    4,
    ["versionstamp"],
    "ChangeRecord",
    "the latest change of each document",
  ),
  winner: keyRow<{ id: string }>(
    5,
    ["id"],
    "WinnerRecord",
    "one for each document that is not deleted, in byte order of the id; only in databases created with format 2",
  ),
  changed: keyRow<NoElements>(
    6,
    [],
    "versionstamp",
    "versionstamp of the last change, empty before the first change; watched",
  ),
  counter: keyRow<{ counter: number }>(
    7,
    ["counter"],
    "counter",
    "1: documents, 2: deleted documents, 3: external bytes, 4: active bytes, 5: superseded bytes",
  ),
  local: keyRow<{ id: string; chunk: number }>(
    8,
    ["id", "chunk"],
    "LocalRecord",
    "local documents",
  ),
  security: keyRow<{ chunk: number }>(9, ["chunk"], "SecurityRecord", "absent until set"),
  content: keyRow<ContentElement>(
    10,
    ["content"],
    "ContentRecord",
    "the content of a completely uploaded attachment",
  ),
  contentChunk: keyRow<ContentElement & { chunk: number }>(
    11,
    ["content", "chunk"],
    "bytes",
    "a chunk of the content: 65,536 bytes, or fewer in the last chunk",
  ),
  reference: keyRow<ContentElement & LeafElements & { name: string }>(
    12,
    ["content", "id", "generation", "hash", "name"],
    '""',
    "a leaf that refers to the content",
  ),
  contentByDigest: keyRow<{ digest: Uint8Array; encoding: string; length: number }>(
    13,
    ["digest", "encoding", "length"],
    "content",
    "the content that all uploads of the same bytes share",
  ),
  unreferenced: keyRow<{ sinceMs: number } & ContentElement>(
    14,
    ["sinceMs", "content"],
    '""',
    "possibly unreferenced content; reclaim() checks old entries",
  ),
  share: keyRow<{ versionstamp: Versionstamp }>(
    15,
    ["versionstamp"],
    "counter",
    "part of the number of changes; the parts at and after a boundary add up to the number of changes after that boundary",
  ),
  boundary: keyRow<{ versionstamp: Versionstamp }>(16, ["versionstamp"], '""', "a boundary"),
  sweepCursor: keyRow<NoElements>(
    17,
    [],
    "versionstamp",
    "the boundary at which the next sweep begins",
  ),
  purge: keyRow<{ number: number }>(
    18,
    ["number"],
    "PurgeRecord",
    "the latest purges, numbered from 1",
  ),
  purgeLimit: keyRow<NoElements>(19, [], "PurgeLimit", "absent until set"),
  oldBody: keyRow<{ sinceMs: number } & LeafElements>(
    21,
    ["sinceMs", "id", "generation", "hash"],
    "OldBodyRecord",
    "when a revision was superseded; its rows under keys 2, 3 and 12 are kept for a while",
  ),
  conflict: keyRow<{ id: string }>(
    22,
    ["id"],
    "ConflictRecord",
    "a document with several leaves that are not deleted",
  ),
  conflictSearch: keyRow<NoElements>(
    23,
    [],
    "ConflictSearch",
    "progress of the conflict scan of changes that an older version wrote; absent until the scan begins",
  ),
  timeReset: keyRow<NoElements>(24, [], "versionstamp", "last reset of `_time_seq`"),
  tombstoneTtl: keyRow<NoElements>(25, [], "text", "`deleted_document_ttl`; absent until set"),
  tombstonesPurged: keyRow<NoElements>(
    26,
    [],
    "versionstamp",
    "last change that the automatic purge has read",
  ),
  resolverTurn: keyRow<NoElements>(
    27,
    [],
    "TurnRecord",
    "progress of the current pass that resolves conflicts",
  ),
  resolution: keyRow<{ number: number }>(
    28,
    ["number"],
    "ResolutionRecord",
    "the latest resolutions of conflicts, numbered from 1",
  ),
  unresolved: keyRow<{ id: string }>(
    29,
    ["id"],
    "UnresolvedRecord",
    "reason why the policy did not resolve a document's conflict",
  ),
  tombstone: keyRow<{ id: string; chunk: number }>(
    30,
    ["id", "chunk"],
    "DocumentRecord",
    "a deleted document, in databases without rows (5)",
  ),
};

/**
 * Shapes below `(2, number)` of the layer's subspace. A hash is 16 bytes, or a string if it is
 * foreign.
 */
export const DATABASE_KEY_SHAPES: readonly KeyShape[] = withGap(keyShapes(ROWS), 19, {
  key: "(20, …)",
  value: "",
  note: "the indexes of the database: definitions and entries",
});

const databaseTable = keyTable(ROWS);

export interface DatabaseKeys extends KeysOf<typeof ROWS> {
  /** Range of all keys of the database. */
  readonly everything: KeyBounds;
  /** Subspace of the database's indexes. */
  readonly indexes: Subspace;
}

/** Returns the keys of a database in its subspace. */
export function databaseKeysIn(database: Subspace): DatabaseKeys {
  const indexes = database.subspace(INDEXES);
  return Object.assign(databaseTable(database), { everything: database.range(), indexes });
}

const COUNTER_NUMBERS = {
  documents: 1,
  deletedDocuments: 2,
  externalBytes: 3,
  activeBytes: 4,
  supersededBytes: 5,
} as const;
export type Counter = keyof typeof COUNTER_NUMBERS;

export function counterElement(counter: Counter): { readonly counter: number } {
  return { counter: COUNTER_NUMBERS[counter] };
}

export function leafElements(id: string, { generation, hash }: RevisionParts): LeafElements {
  return { id, generation, hash: hashDigest(hash) ?? hash };
}

/**
 * Returns the key of a chunk of a leaf. Creates no intermediate object, because each read needs a
 * key.
 */
export function leafKey(
  keys: DatabaseKeys["body"],
  id: string,
  { generation, hash }: RevisionParts,
  chunk: number,
): Key {
  return keys.key({ id, generation, hash: hashDigest(hash) ?? hash, chunk });
}

/** Returns the revision that the elements of a key contain. */
export function leafRevision({ generation, hash }: LeafElements): RevisionParts {
  return { generation, hash: typeof hash === "string" ? hash : hexEncode(hash as Uint8Array) };
}

export function contentElement(contentId: string): ContentElement {
  return { content: hexDecode(contentId) as Uint8Array };
}

export function contentIdOf({ content }: ContentElement): string {
  return hexEncode(content);
}

/** Inserts, at this index, the shape of a key range that has no row. */
function withGap(shapes: readonly KeyShape[], index: number, shape: KeyShape): KeyShape[] {
  return [...shapes.slice(0, index), shape, ...shapes.slice(index)];
}
