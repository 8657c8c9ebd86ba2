/**
 * Format of a backup: the contents of a store at one version, independent of the engine.
 *
 *   file   = magic block+
 *   block  = length (4 bytes) kind (1 byte) payload digest (32 bytes)
 *   digest = SHA-256 of the previous digest (except in the first block), length, kind, payload
 *
 * The first block is the head, in JSON. Blocks of rows in key order follow, then the end block with
 * the number of rows. Digests are chained, so the last digest covers the whole file: modified,
 * moved or missing blocks and truncation are detected, but not forgery. Numbers are big-endian.
 */
import { createHash } from "node:crypto";
import { OperationalError } from "../../base/index.ts";
import type { KeyValue } from "../../kv/index.ts";

export const MAGIC: Buffer = Buffer.from("Tandem backup 1\n");

const HEAD = 0;
const ROWS = 1;
const END = 2;

export const BLOCK_HEAD_BYTES = 5;
export const DIGEST_BYTES = 32;

/**
 * Maximum size of a payload. Far above the size of a page of rows (about one megabyte), and above
 * that of the largest transaction (ten megabytes).
 */
export const PAYLOAD_BYTES_MAX = 16_000_000;

/** Number of bytes for the lengths of key and value. */
const ROW_HEAD_BYTES = 6;

export interface BackupHead {
  readonly madeAtMs: number;
  /** Version of the program that wrote the backup. */
  readonly program: string;
  /** Store version; no versionstamp in the rows is later. */
  readonly version: number;
}

export interface BackupEnd {
  readonly rowCount: number;
  /** Total size of keys and values. */
  readonly byteCount: number;
}

export type BackupBlock =
  | { readonly kind: "head"; readonly head: BackupHead }
  | { readonly kind: "rows"; readonly rows: readonly KeyValue[] }
  | { readonly kind: "end"; readonly end: BackupEnd };

/** The file is not a complete backup; `details.reason` says why. */
export class BackupDamagedError extends OperationalError {
  constructor(reason: string) {
    super("BACKUP_DAMAGED", "The backup is damaged", { reason });
  }
}

/** Encodes blocks in order, with chained digests. */
export class BlockEncoder {
  #digest: Uint8Array = new Uint8Array(0);

  encode(block: BackupBlock): Buffer {
    const [kind, payload] = encodePayload(block);
    const head = Buffer.alloc(BLOCK_HEAD_BYTES);
    head.writeUInt32BE(payload.length);
    head.writeUInt8(kind, 4);
    this.#digest = digestOf(this.#digest, head, payload);
    return Buffer.concat([head, payload, this.#digest]);
  }
}

/** Decodes blocks in order. Throws BACKUP_DAMAGED for a block that does not match its digest. */
export class BlockDecoder {
  #digest: Uint8Array = new Uint8Array(0);

  /** `rest` is the payload followed by the digest. */
  decode(head: Buffer, rest: Buffer): BackupBlock {
    const payload = rest.subarray(0, rest.length - DIGEST_BYTES);
    const digest = digestOf(this.#digest, head, payload);
    if (!digest.equals(rest.subarray(payload.length))) {
      throw new BackupDamagedError("the checksum of a block is wrong");
    }
    this.#digest = digest;
    return decodePayload(head.readUInt8(4), payload);
  }
}

function digestOf(before: Uint8Array, head: Buffer, payload: Buffer): Buffer {
  return createHash("sha256").update(before).update(head).update(payload).digest();
}

function encodePayload(block: BackupBlock): [kind: number, payload: Buffer] {
  switch (block.kind) {
    case "head":
      return [HEAD, Buffer.from(JSON.stringify(block.head))];
    case "rows":
      return [ROWS, encodeRows(block.rows)];
    case "end":
      return [END, Buffer.from(JSON.stringify(block.end))];
  }
}

/** Decodes a payload whose digest has been verified. */
function decodePayload(kind: number, payload: Buffer): BackupBlock {
  switch (kind) {
    case HEAD:
      return { kind: "head", head: JSON.parse(payload.toString()) };
    case ROWS:
      return { kind: "rows", rows: decodeRows(payload) };
    case END:
      return { kind: "end", end: JSON.parse(payload.toString()) };
    default:
      throw new BackupDamagedError(`a block has the unknown kind ${kind}`);
  }
}

function encodeRows(rows: readonly KeyValue[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const { key, value } of rows) {
    const head = Buffer.allocUnsafe(ROW_HEAD_BYTES);
    head.writeUInt16BE(key.length);
    head.writeUInt32BE(value.length, 2);
    parts.push(head, key, value);
  }
  return Buffer.concat(parts);
}

function decodeRows(payload: Buffer): KeyValue[] {
  const rows: KeyValue[] = [];
  for (let at = 0; at < payload.length; ) {
    const keyStart = at + ROW_HEAD_BYTES;
    const valueStart = keyStart + payload.readUInt16BE(at);
    const valueEnd = valueStart + payload.readUInt32BE(at + 2);
    rows.push({
      key: new Uint8Array(payload.subarray(keyStart, valueStart)),
      value: new Uint8Array(payload.subarray(valueStart, valueEnd)),
    });
    at = valueEnd;
  }
  return rows;
}
