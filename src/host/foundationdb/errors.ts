/** Translates FoundationDB's error numbers into this layer's errors. */
import { AssertionError, errorCode } from "../../base/index.ts";
import { KeyValueError, type KeyValueErrorCode } from "../../kv/index.ts";

const CODES: Readonly<Record<number, KeyValueErrorCode>> = {
  1007: "KV_TOO_OLD",
  1020: "KV_CONFLICT",
  1021: "KV_UNKNOWN_COMMIT",
  1025: "KV_CLOSED",
  1031: "KV_TIMED_OUT",
  1101: "KV_CLOSED",
  2101: "KV_TOO_LARGE",
  2102: "KV_KEY_TOO_LARGE",
  2103: "KV_VALUE_TOO_LARGE",
};

/**
 * Error codes after which a retry might get a usable read version. In this order: future version,
 * process behind, batch limit, proxy memory, tag throttled, cluster version changed.
 */
const OTHER_VERSION = new Set([1009, 1037, 1039, 1042, 1051, 1078, 1213]);

/** Errors caused by mistakes in the calling code. */
const PROGRAMMER_ERRORS: Readonly<Record<number, string>> = {
  1036: "A versionstamped key or value must not be read in the same transaction",
  2000: "The operation was not valid",
  2004: "A key must not begin with 0xff",
  2005: "A range must not end before it begins",
};

const TOO_MANY_WATCHES = 1032;
const CLUSTER_VERSION_CHANGED = 1039;
const NO_CLUSTER_FILE = new Set([1515, 1516, 1517]);

/** `committing` is true if the commit might have succeeded despite the error. */
export function fdbError(error: unknown, committing = false): Error {
  if (errorCode(error) !== undefined) return error as Error;
  const fdbCode = (error as { code?: unknown }).code;
  if (typeof fdbCode !== "number") return error instanceof Error ? error : new Error(String(error));
  const defect = PROGRAMMER_ERRORS[fdbCode];
  if (defect !== undefined) return new AssertionError(defect);
  return new KeyValueError(
    codeOf(fdbCode, committing),
    { fdbCode, reason: reasonOf(fdbCode, error as Error) },
    { cause: error },
  );
}

/** Whether the client has reached its maximum number of watches. */
export function isTooManyWatches(error: unknown): boolean {
  return (error as { code?: unknown }).code === TOO_MANY_WATCHES;
}

function codeOf(fdbCode: number, committing: boolean): KeyValueErrorCode {
  if (committing && fdbCode === CLUSTER_VERSION_CHANGED) return "KV_UNKNOWN_COMMIT";
  if (OTHER_VERSION.has(fdbCode)) return "KV_TOO_OLD";
  return CODES[fdbCode] ?? "KV_UNAVAILABLE";
}

function reasonOf(fdbCode: number, error: Error): string {
  if (NO_CLUSTER_FILE.has(fdbCode)) return `the cluster file cannot be read (${error.message})`;
  return error.message;
}
