/** The `Range` header (RFC 9110, section 14.2). */
import { ProtocolError } from "../../protocol/index.ts";

/** From `start` to before `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The range of a resource of `length` bytes that is asked for; undefined when the whole is to be sent: there is no such
 * header, it is not understood, or it asks for several ranges or, as CouchDB has it, for all bytes from the first on.
 * Throws a ProtocolError 416 when there are no such bytes; as CouchDB, also for a range that ends before it begins.
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
