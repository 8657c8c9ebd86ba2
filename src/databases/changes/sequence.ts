/**
 * Update sequences as higher layers see them: the commit version in decimal, a dash, and the
 * versionstamp in hex. Only the versionstamp is significant. The number is for people, and for
 * clients that parse the part before the dash, as with CouchDB. "0" precedes everything.
 */
import { hexDecode, hexEncode, OperationalError } from "../../base/index.ts";
import { VERSIONSTAMP_BYTES, Versionstamp } from "../../kv/index.ts";

export const FIRST_SEQUENCE = "0";

const SEQUENCE = /^([0-9]+)-([0-9a-f]{24})$/;

export function formatSequence(versionstamp: Versionstamp): string {
  return `${commitVersion(versionstamp)}-${hexEncode(versionstamp.bytes)}`;
}

/**
 * Returns `undefined` for "0". Throws STORE_SEQUENCE_INVALID for a sequence that this server did
 * not issue.
 */
export function parseSequence(sequence: string): Versionstamp | undefined {
  if (sequence === FIRST_SEQUENCE) return undefined;
  const match = SEQUENCE.exec(sequence);
  const bytes = match === null ? undefined : hexDecode(match[2] as string);
  if (match !== null && bytes?.length === VERSIONSTAMP_BYTES) {
    const versionstamp = Versionstamp.fromBytes(bytes);
    if (commitVersion(versionstamp) === match[1]) return versionstamp;
  }
  throw new OperationalError(
    "STORE_SEQUENCE_INVALID",
    "The sequence was not issued by this server",
    {
      sequence: sequence.slice(0, 100),
    },
  );
}

/** Returns the commit version in decimal. */
function commitVersion({ bytes }: Versionstamp): string {
  const high = uint32(bytes, 0);
  const low = uint32(bytes, 4);
  const isSafe = high < 2 ** 21;
  return isSafe ? String(high * 2 ** 32 + low) : String((BigInt(high) << 32n) + BigInt(low));
}

function uint32(bytes: Uint8Array, offset: number): number {
  let value = 0;
  for (let index = offset; index < offset + 4; index++)
    value = value * 256 + (bytes[index] as number);
  return value;
}
