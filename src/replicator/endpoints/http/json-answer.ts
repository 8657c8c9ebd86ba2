/** Parses JSON responses of untrusted servers. */
import { JsonLimitError, outlineJson } from "../../../base/index.ts";

/**
 * Maximum nesting of a parsed response, because code that processes a response recurses at each
 * level.
 */
export const NESTING_MAX = 1_000;
/** Maximum number of JSON values that are parsed without yielding to the event loop. */
const PARSED_VALUES_MAX = 20_000;

/**
 * Parses short JSON text. Returns `undefined` if it is invalid, nested too deeply, or has too many
 * values.
 */
export function parseJson(text: string): unknown {
  const limits = { depthMax: 0, nestingMax: NESTING_MAX, valueCountMax: PARSED_VALUES_MAX };
  try {
    outlineJson(text, limits);
  } catch (error) {
    if (isNoAnswer(error)) return undefined;
    throw error;
  }
  return JSON.parse(text);
}

/** Whether a scan failed because of the text itself, which is invalid JSON or exceeds a limit. */
export function isNoAnswer(error: unknown): boolean {
  return error instanceof SyntaxError || error instanceof JsonLimitError;
}

/** Whether a response contains more than its reader accepts. */
export function isTooMuch(error: unknown): error is JsonLimitError {
  return error instanceof JsonLimitError;
}

/**
 * Whether an invalid response begins like JSON or is empty. Such a response is incomplete even if
 * it ended without an error, since a proxy might have ended it early.
 */
export function isBroken(text: string): boolean {
  const first = text.trimStart()[0];
  return first === undefined || first === "{" || first === "[";
}

/** Returns a JSON object, or `undefined` for any other value. */
export function asObject(json: unknown): Record<string, unknown> | undefined {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  return isObject ? (json as Record<string, unknown>) : undefined;
}

/** Parses the text of a response. Returns `undefined` if it is not an object. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  return asObject(parseJson(text));
}
