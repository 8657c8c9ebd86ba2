/** Parses JSON answers of servers that may send anything. */
import { JsonLimitError, outlineJson } from "../../../base/index.ts";

/** Brackets around one value of an answer that is parsed: much of what reads it goes one call deeper for each of them. */
export const NESTING_MAX = 1_000;
/** Values of a text that is parsed in one step. */
const PARSED_VALUES_MAX = 20_000;

/** Parses a short text. Undefined for what is not JSON, is nested too deeply or holds too many values. */
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

/** Whether it is the fault of the answer that it cannot be outlined. */
export function isNoAnswer(error: unknown): boolean {
  return error instanceof SyntaxError || error instanceof JsonLimitError;
}

/** Whether an answer holds more than its reader accepts. */
export function isTooMuch(error: unknown): error is JsonLimitError {
  return error instanceof JsonLimitError && error.limit !== "nesting";
}

/** Whether an answer that is no JSON begins as such, or is empty: a proxy may end a body in good order that broke off. */
export function isBroken(text: string): boolean {
  const first = text.trimStart()[0];
  return first === undefined || first === "{" || first === "[";
}

/** A JSON object, or `undefined` for any other value. */
export function asObject(json: unknown): Record<string, unknown> | undefined {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  return isObject ? (json as Record<string, unknown>) : undefined;
}

/** The same, of an answer's text. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  return asObject(parseJson(text));
}
