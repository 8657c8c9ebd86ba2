/**
 * Revisions as strings and in parts, and their order.
 *
 * A hash of 32 hex digits denotes 16 bytes, as in CouchDB; any other string denotes its UTF-8
 * bytes. The order of these bytes determines winners, so nodes also agree on revisions with
 * arbitrary hashes.
 */
import {
  compareBytes,
  hexDecode,
  isLowerCaseHex,
  OperationalError,
  utf8Encode,
} from "../../base/index.ts";
import type { Revision, RevisionPath } from "../document.ts";

export interface RevisionParts {
  readonly generation: number;
  readonly hash: string;
}

/**
 * Foreign hashes (not 32 hex digits) are arbitrary strings. The limit keeps a key that contains
 * such a hash and a long document id below the store's limit.
 */
export const HASH_BYTES_MAX = 500;

/** CouchDB also stores the generation 0, and revisions without a hash (`9999-`). */
const REVISION = /^(?:0|[1-9][0-9]{0,14})-/;
/** CouchDB parses the generation as Erlang does and stores `+01-a` as `1-a`. */
const REVISION_READ = /^\+?0*[0-9]{1,15}-/;
const HEX_HASH = /^[0-9a-fA-F]{32}$/;
const LONE_SURROGATE = /\p{Surrogate}/u;

export function formatRevision({ generation, hash }: RevisionParts): Revision {
  return `${generation}-${hash}`;
}

/** Whether a database can store a revision with exactly this name. */
export function isRevision(text: string): boolean {
  if (!REVISION.test(text)) return false;
  const hash = text.slice(text.indexOf("-") + 1);
  return isDigest(hash) || isForeignHash(hash);
}

/** Parses a revision. Throws STORE_REVISION_INVALID. */
export function parseRevision(revision: Revision): RevisionParts {
  if (!REVISION_READ.test(revision)) throw revisionInvalid(revision);
  const dash = revision.indexOf("-");
  return {
    generation: Number(revision.slice(0, dash)),
    hash: canonicalHash(revision.slice(dash + 1)),
  };
}

/** Returns the path with its hashes in stored form. Throws STORE_REVISION_INVALID. */
export function canonicalPath(path: RevisionPath): RevisionPath {
  const { start, hashes } = path;
  if (
    !Number.isSafeInteger(start) ||
    start < 0 ||
    hashes.length === 0 ||
    start + 1 < hashes.length
  ) {
    throw revisionInvalid(`${start}-${hashes[0] ?? ""}`);
  }
  return { start, hashes: hashes.map(canonicalHash) };
}

/** Whether a hash in stored form denotes 16 bytes, like the hashes that CouchDB creates. */
export function isDigest(hash: string): boolean {
  return hash.length === 32 && isLowerCaseHex(hash);
}

/**
 * Returns the 16 bytes of a hash of the usual form, or `undefined` for a foreign hash. Callers must
 * not modify the bytes.
 */
export function hashDigest(hash: string): Uint8Array | undefined {
  if (hash !== lastHash) {
    lastDigest = hash.length === 32 ? hexDecode(hash) : undefined;
    lastHash = hash;
  }
  return lastDigest;
}

/**
 * The last hash and its digest, cached because a write of a revision needs the digest for each of
 * its records.
 */
let lastHash = "";
let lastDigest: Uint8Array | undefined;

/** Compares hashes in CouchDB's order within a generation. */
export function compareHashes(left: string, right: string): number {
  if (left === right) return 0;
  const areDigests = HEX_HASH.test(left) && HEX_HASH.test(right);
  if (areDigests) return left < right ? -1 : 1;
  return compareBytes(hashBytes(left), hashBytes(right));
}

function hashBytes(hash: string): Uint8Array {
  return hashDigest(hash) ?? utf8Encode(hash);
}

function canonicalHash(hash: string): string {
  if (isDigest(hash)) return hash;
  if (HEX_HASH.test(hash)) return hash.toLowerCase();
  if (!isForeignHash(hash)) throw revisionInvalid(hash);
  return hash;
}

function isForeignHash(hash: string): boolean {
  if (LONE_SURROGATE.test(hash)) return false;
  return utf8Encode(hash).length <= HASH_BYTES_MAX;
}

function revisionInvalid(revision: string): OperationalError {
  return new OperationalError("STORE_REVISION_INVALID", "Invalid rev format", {
    revision: revision.slice(0, 100),
  });
}
