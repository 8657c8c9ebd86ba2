/**
 * Update sequences as the layers above see them: the commit's version in decimal, a dash, the versionstamp in hex. Only the
 * second part counts; the number is for people, and for clients that look at what stands before the dash, as they do with
 * CouchDB's. "0" stands before everything.
 */
import { hexDecode, OperationalError } from "../base/index.ts";
import { VERSIONSTAMP_BYTES, Versionstamp } from "../kv/index.ts";

export const FIRST_SEQUENCE = "0";

const SEQUENCE = /^([0-9]+)-([0-9a-f]{24})$/;

export function formatSequence(versionstamp: Versionstamp): string {
  return `${commitVersion(versionstamp)}-${versionstamp.toString()}`;
}

/** Undefined for "0". Throws STORE_SEQUENCE_INVALID for what is no sequence of ours. */
export function parseSequence(sequence: string): Versionstamp | undefined {
  if (sequence === FIRST_SEQUENCE) return undefined;
  const match = SEQUENCE.exec(sequence);
  const bytes = match === null ? undefined : hexDecode(match[2] as string);
  if (match !== null && bytes?.length === VERSIONSTAMP_BYTES) {
    const versionstamp = Versionstamp.fromBytes(bytes);
    if (commitVersion(versionstamp).toString() === match[1]) return versionstamp;
  }
  throw new OperationalError("STORE_SEQUENCE_INVALID", "The sequence is not one of this server", {
    sequence: sequence.slice(0, 100),
  });
}

function commitVersion({ bytes }: Versionstamp): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0);
}
