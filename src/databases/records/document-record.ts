/**
 * The stored form of a document's revision tree and of its position in the update sequence.
 *
 *   format (1 byte), versionstamp of the change (12), number of chunks,
 *   number of leaves, then each leaf, winner first:
 *     generation, flags, body chunks, body bytes,
 *     and with attachments: chunks, bytes, encoded bytes
 *     and if the number of body chunks is 0: length of the BodyRecord, the BodyRecord
 *     number of hashes on the leaf's path that no earlier leaf listed,
 *     parent of the last of these hashes: 0 if unknown, otherwise 1 + its index among all hashes
 *     listed by earlier leaves,
 *     the hashes: 1, then 16 bytes for each hash; or, if one of them is not 32 hex digits, 0, then
 *     for each hash either 0 and 16 bytes, or a length and a string
 *
 * The record is split into chunks: a tree of many long branches exceeds the store's limit for a
 * value.
 */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import { VERSIONSTAMP_BYTES, Versionstamp, type VersionstampedBytes } from "../../kv/index.ts";
import { HASH_BYTES_MAX, hashDigest, isDigest, type RevisionParts } from "../revisions/revision.ts";
import {
  type LeafNode,
  type LeafState,
  type RevisionNode,
  RevisionTree,
} from "../revisions/revision-tree.ts";
import { CHUNK_BYTES, joinChunks, splitChunks } from "./chunks.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const VERSIONSTAMP_OFFSET = 1;
const DIGEST_BYTES = 16;

const NO_CHUNKS: readonly Uint8Array[] = [];

const DELETED = 1;
const HAS_ATTACHMENTS = 2;

export interface DocumentRecord {
  readonly versionstamp: Versionstamp;
  readonly tree: RevisionTree;
  readonly chunkCount: number;
}

/** Encoded record, valid until another record is begun. */
export interface EncodedDocumentRecord {
  /** Chunk 0, whose versionstamp the commit completes. */
  readonly first: VersionstampedBytes;
  readonly more: readonly Uint8Array[];
  readonly chunkCount: number;
}

export function encodeDocumentRecord(
  tree: RevisionTree,
  userVersion: number,
): EncodedDocumentRecord {
  const writer = new RecordWriter().byte(FORMAT).raw(Versionstamp.incomplete(userVersion).bytes);
  // Placeholder for the number of chunks, which is below 0x80 and therefore one byte.
  writer.byte(0);
  writeTree(writer, tree);
  const bytes = writer.finishBriefly();
  const chunkCount = Math.ceil(bytes.length / CHUNK_BYTES);
  assert(chunkCount < 0x80, "A revision tree must not exceed a transaction");
  bytes[VERSIONSTAMP_OFFSET + VERSIONSTAMP_BYTES] = chunkCount;
  const chunks = splitChunks(bytes);
  return {
    first: { bytes: chunks[0] as Uint8Array, offset: VERSIONSTAMP_OFFSET },
    more: chunks.length === 1 ? NO_CHUNKS : chunks.slice(1),
    chunkCount,
  };
}

/**
 * Encodes the record of a document that keeps its position in the update sequence. The chunks are
 * valid until another record is begun.
 */
export function encodePlacedDocumentRecord(
  tree: RevisionTree,
  versionstamp: Versionstamp,
): Uint8Array[] {
  const { first, more } = encodeDocumentRecord(tree, 0);
  first.bytes.set(versionstamp.bytes, VERSIONSTAMP_OFFSET);
  return [first.bytes, ...more];
}

/** Reads the number of chunks from chunk 0. */
export function documentChunkCount(first: Uint8Array): number {
  assert(first[0] === FORMAT, "The document record must have a supported format version");
  return new RecordReader(first, 1 + VERSIONSTAMP_BYTES).integer();
}

export function decodeDocumentRecord(chunks: readonly Uint8Array[]): DocumentRecord {
  const bytes = joinChunks(chunks);
  assert(bytes[0] === FORMAT, "The document record must have a supported format version");
  const versionstamp = Versionstamp.at(bytes, VERSIONSTAMP_OFFSET);
  const reader = new RecordReader(bytes, VERSIONSTAMP_OFFSET + VERSIONSTAMP_BYTES);
  reader.integer();
  return { versionstamp, tree: decodeTree(reader), chunkCount: chunks.length };
}

/** Reads the winner from chunk 0. */
export function decodeWinner(first: Uint8Array): RevisionParts & { readonly deleted: boolean } {
  assert(first[0] === FORMAT, "The document record must have a supported format version");
  const reader = new RecordReader(first, 1 + VERSIONSTAMP_BYTES);
  reader.integer();
  assert(reader.integer() > 0, "A stored document must have a leaf");
  const generation = reader.integer();
  const { deleted } = readLeafState(reader);
  reader.integer();
  reader.integer();
  const hash = reader.byte() === 1 ? reader.hex(DIGEST_BYTES) : readHash(reader);
  return { generation, hash, deleted };
}

function writeTree(writer: RecordWriter, tree: RevisionTree): void {
  writer.integer(tree.leaves.length);
  // Positions of nodes are needed only if a second leaf can refer to them.
  const places = tree.leaves.length > 1 ? new Map<RevisionNode, number>() : undefined;
  for (const node of tree.leaves) {
    writeLeaf(writer, node);
    let length = 0;
    let areDigests = true;
    let joint: RevisionNode | undefined = node;
    while (joint !== undefined && places?.has(joint) !== true) {
      length++;
      areDigests &&= isDigest(joint.hash);
      joint = joint.parent;
    }
    const place = joint === undefined ? undefined : places?.get(joint);
    writer.integer(length).integer(place === undefined ? 0 : place + 1);
    writer.byte(areDigests ? 1 : 0);
    for (let at: RevisionNode | undefined = node; at !== joint; at = at?.parent) {
      const { hash } = at as RevisionNode;
      if (areDigests) writer.hex(hash);
      else writeHash(writer, hash);
      places?.set(at as RevisionNode, places.size);
    }
  }
}

function decodeTree(reader: RecordReader): RevisionTree {
  const leafCount = reader.integer();
  // A single leaf needs no list: only leaves after the first can refer to hashes of earlier leaves.
  const listed: MutableNode[] | undefined = leafCount > 1 ? [] : undefined;
  const leaves = new Array<LeafNode>(leafCount);
  for (let leafIndex = 0; leafIndex < leafCount; leafIndex++) {
    const generation = reader.integer();
    const leaf = readLeafState(reader);
    const hashCount = reader.integer();
    const joint = reader.integer();
    const hashes = readHashes(reader, hashCount);
    let above: MutableNode | undefined;
    for (let depth = 0; depth < hashCount; depth++) {
      const node: MutableNode = {
        generation: generation - depth,
        hash: hashes[depth] as string,
        parent: undefined,
        leaf: depth === 0 ? leaf : undefined,
      };
      if (above === undefined) leaves[leafIndex] = node as LeafNode;
      else above.parent = node;
      above = node;
      listed?.push(node);
    }
    if (joint > 0) (above as MutableNode).parent = listed?.[joint - 1];
  }
  return new RevisionTree(leaves);
}

interface MutableNode extends RevisionNode {
  parent: RevisionNode | undefined;
}

function writeLeaf(writer: RecordWriter, { generation, leaf }: LeafNode): void {
  const hasAttachments = leaf.attachmentChunkCount > 0;
  writer.integer(generation);
  writer.byte((leaf.deleted ? DELETED : 0) | (hasAttachments ? HAS_ATTACHMENTS : 0));
  writer.integer(leaf.bodyChunkCount).integer(leaf.bodyBytes);
  if (hasAttachments) {
    writer.integer(leaf.attachmentChunkCount);
    writer.integer(leaf.attachmentBytes).integer(leaf.attachmentEncodedBytes);
  }
  if (leaf.bodyChunkCount > 0) return;
  assert(leaf.inlineBody !== undefined, "A body without chunks must be in the document record");
  writer.sized(leaf.inlineBody);
}

function readLeafState(reader: RecordReader): LeafState {
  const flags = reader.byte();
  const hasAttachments = (flags & HAS_ATTACHMENTS) !== 0;
  const bodyChunkCount = reader.integer();
  return {
    deleted: (flags & DELETED) !== 0,
    bodyChunkCount,
    bodyBytes: reader.integer(),
    attachmentChunkCount: hasAttachments ? reader.integer() : 0,
    attachmentBytes: hasAttachments ? reader.integer() : 0,
    attachmentEncodedBytes: hasAttachments ? reader.integer() : 0,
    inlineBody: bodyChunkCount === 0 ? reader.sized() : undefined,
  };
}

function readHashes(reader: RecordReader, hashCount: number): string[] {
  if (reader.byte() === 0) return Array.from({ length: hashCount }, () => readHash(reader));
  // A history can be long, so all hashes are converted with one call and then split.
  const digits = reader.hex(hashCount * DIGEST_BYTES);
  const width = DIGEST_BYTES * 2;
  const hashes = new Array<string>(hashCount);
  for (let index = 0; index < hashCount; index++) {
    hashes[index] = digits.slice(index * width, (index + 1) * width);
  }
  return hashes;
}

/** Length code of an empty hash. It is not 0, because code 0 marks a hash of the usual form. */
const EMPTY_HASH = HASH_BYTES_MAX + 1;

/** Writes a hash; also used by other records. */
export function writeHash(writer: RecordWriter, hash: string): void {
  const digest = hashDigest(hash);
  if (hash === "") writer.integer(EMPTY_HASH);
  else if (digest === undefined) writer.sized(utf8Encode(hash));
  else writer.byte(0).raw(digest);
}

export function readHash(reader: RecordReader): string {
  const byteCount = reader.integer();
  if (byteCount === EMPTY_HASH) return "";
  return byteCount === 0 ? reader.hex(DIGEST_BYTES) : utf8Decode(reader.raw(byteCount));
}
