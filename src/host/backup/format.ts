/**
 * The format of a backup: what a store holds at one version, whatever engine it has.
 *
 *   file   = magic block+
 *   block  = length (4 bytes) kind (1 byte) payload digest (32 bytes)
 *   digest = SHA-256 of the digest before (none for the first), length, kind, payload
 *
 * The first block is the head, as JSON. Blocks of rows follow, with the keys in order, and an end, which counts them. As each digest
 * covers the one before, that of the end covers the file: a block that was changed, moved, or left out is found, and so is a file that
 * ends too early. All numbers are big-endian. The digests find accidents, not forgeries.
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

/** A page of rows is about a megabyte, and no transaction writes more than ten. What claims to be longer is damaged. */
export const PAYLOAD_BYTES_MAX = 16_000_000;

/** Of each row: the length of the key, that of the value. */
const ROW_HEAD_BYTES = 6;

export interface BackupHead {
  readonly madeAtMs: number;
  /** The version of the program that made it. */
  readonly program: string;
  /** No versionstamp among the rows is later than this version of the store. */
  readonly version: number;
}

export interface BackupEnd {
  readonly rowCount: number;
  /** Of keys and values. */
  readonly byteCount: number;
}

export type BackupBlock =
  | { readonly kind: "head"; readonly head: BackupHead }
  | { readonly kind: "rows"; readonly rows: readonly KeyValue[] }
  | { readonly kind: "end"; readonly end: BackupEnd };

/** The file is no whole backup; `details.reason` says where. */
export class BackupDamagedError extends OperationalError {
  constructor(reason: string, options?: ErrorOptions) {
    super("BACKUP_DAMAGED", "The backup is damaged", { reason }, options);
  }
}

/** Encodes blocks in order, each with its digest. */
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

/** Decodes blocks in order. Throws BACKUP_DAMAGED for one that is not what was written at its place. */
export class BlockDecoder {
  #digest: Uint8Array = new Uint8Array(0);

  /** `rest`: the payload and the digest. */
  decode(head: Buffer, rest: Buffer): BackupBlock {
    const payload = rest.subarray(0, rest.length - DIGEST_BYTES);
    const digest = digestOf(this.#digest, head, payload);
    if (!digest.equals(rest.subarray(payload.length))) {
      throw new BackupDamagedError("a block does not have its checksum");
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

/** Of a payload whose digest is right, so it is what this program wrote. */
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
