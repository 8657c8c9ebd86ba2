/** The `Range` header (RFC 9110, section 14.2). */
import { ProtocolError } from "../../protocol/index.ts";

/** A range from `start` (inclusive) to `end` (exclusive). */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The requested range of a resource of `length` bytes, or `undefined` for the whole resource: if
 * the header is missing or invalid, or requests several ranges or (as in CouchDB) all bytes. Throws
 * CouchDB's 416.
 */
export function byteRange(header: string | undefined, length: number): ByteRange | undefined {
  const match = /^\s*bytes\s*=\s*([0-9]*)\s*-\s*([0-9]*)\s*$/.exec(header ?? "");
  if (match === null) return undefined;
  const [first, last] = [match[1] ?? "", match[2] ?? ""];
  const isWhole = last === "" && (first === "" || Number(first) === 0);
  if (isWhole) return undefined;
  const start = first === "" ? Math.max(0, length - Number(last)) : Number(first);
  const end = first === "" || last === "" ? length : Math.min(length, Number(last) + 1);
  if (start < end) return { start, end };
  const reason = "Requested range not satisfiable";
  throw new ProtocolError(416, "requested_range_not_satisfiable", reason);
}
