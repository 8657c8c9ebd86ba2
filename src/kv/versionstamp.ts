/**
 * Versionstamps: 12 bytes, 10 of the commit and 2 of the user version, big-endian, so that they
 * sort by commit and then by user version.
 */
import { assert, compareBytes, hexEncode } from "../base/index.ts";
import { copyBytes } from "./key-bytes.ts";

const TRANSACTION_BYTES = 10;
export const VERSIONSTAMP_BYTES = 12;
const PLACEHOLDER = new Uint8Array(TRANSACTION_BYTES).fill(0xff);

export class Versionstamp {
  readonly bytes: Uint8Array;
  /** Whether the first ten bytes are set. The commit determines them. */
  readonly complete: boolean;

  private constructor(bytes: Uint8Array, complete: boolean) {
    this.bytes = bytes;
    this.complete = complete;
  }

  /** A complete versionstamp from its 12 bytes. */
  static fromBytes(bytes: Uint8Array): Versionstamp {
    assert(bytes.length === VERSIONSTAMP_BYTES, "A versionstamp must have 12 bytes");
    return new Versionstamp(copyBytes(bytes), true);
  }

  /** The complete versionstamp in the last 12 bytes. */
  static endOf(bytes: Uint8Array): Versionstamp {
    return Versionstamp.at(bytes, bytes.length - VERSIONSTAMP_BYTES);
  }

  /** The complete versionstamp that begins at `offset`. */
  static at(bytes: Uint8Array, offset: number): Versionstamp {
    const end = offset + VERSIONSTAMP_BYTES;
    assert(offset >= 0 && end <= bytes.length, "A versionstamp must have 12 bytes");
    return new Versionstamp(Uint8Array.prototype.slice.call(bytes, offset, end), true);
  }

  /**
   * A versionstamp that the commit completes. `userVersion` orders the versionstamps of one
   * transaction.
   */
  static incomplete(userVersion = 0): Versionstamp {
    const known = incompletes[userVersion];
    if (known !== undefined) return known;
    assert(userVersion >= 0 && userVersion <= 0xffff, "A user version must fit in 16 bits");
    const bytes = new Uint8Array(VERSIONSTAMP_BYTES);
    bytes.set(PLACEHOLDER);
    bytes[10] = userVersion >> 8;
    bytes[11] = userVersion & 0xff;
    const made = new Versionstamp(bytes, false);
    if (userVersion === incompletes.length && userVersion < KEPT_COUNT_MAX) incompletes.push(made);
    return made;
  }

  /** Returns a versionstamp with the same commit version and another user version. */
  withUserVersion(userVersion: number): Versionstamp {
    assert(this.complete, "The versionstamp must be complete to change its user version");
    const bytes = copyBytes(this.bytes);
    bytes[10] = userVersion >> 8;
    bytes[11] = userVersion & 0xff;
    return new Versionstamp(bytes, true);
  }

  compare(other: Versionstamp): number {
    return compareBytes(this.bytes, other.bytes);
  }

  /** 24 hexadecimal digits. The strings sort like the versionstamps. */
  toString(): string {
    return hexEncode(this.bytes);
  }
}

/**
 * Cache of incomplete versionstamps with low user versions, because each document of a batch
 * requests its versionstamp twice.
 */
const incompletes: Versionstamp[] = [];
const KEPT_COUNT_MAX = 2_048;

/** Bytes with one incomplete versionstamp, which the commit completes at `offset`. */
export interface VersionstampedBytes {
  readonly bytes: Uint8Array;
  readonly offset: number;
}
