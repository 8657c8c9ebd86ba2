/** Parses JSON answers of servers that may send anything. */
import { JsonLimitError, type JsonValue, outlineJson } from "../../../base/index.ts";
import type { ServerAnswer } from "../endpoint.ts";

/** Brackets around one value of an answer that is parsed: much of what reads it goes one call deeper for each of them. */
export const NESTING_MAX = 1_000;
/** Of what a server says, so much is passed on to people. */
const SHOWN_LENGTH_MAX = 1_000;

/** What an answer, a text or its UTF-8, says; undefined for what is no JSON, or is nested too deeply. */
export function parseJson(json: string | Uint8Array): unknown {
  const outline = outlineOf(() => outlineJson(json, { depthMax: 0, nestingMax: NESTING_MAX }));
  return outline && JSON.parse(outline.text);
}

/** The same, to be cut down to values that so many brackets enclose; by default it may be nested as deeply as it likes. */
export function outlineAnswer(
  body: Uint8Array,
  depthMax: number,
  nestingMax = Number.POSITIVE_INFINITY,
): JsonValue | undefined {
  return outlineOf(() => outlineJson(body, { depthMax, nestingMax }));
}

function outlineOf(outline: () => JsonValue): JsonValue | undefined {
  try {
    return outline();
  } catch (error) {
    if (isNoAnswer(error)) return undefined;
    throw error;
  }
}

/** Whether it is the fault of the answer that it cannot be outlined. */
export function isNoAnswer(error: unknown): boolean {
  return error instanceof SyntaxError || error instanceof JsonLimitError;
}

/** A value of an answer for people: a text as it is, all else as JSON, and no more than a few sentences of it. */
export function shown(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text;
}

/** Whether an answer that is no JSON begins as such, or is empty: a proxy may end a body in good order that broke off. */
export function isBroken(text: string): boolean {
  const first = text.trimStart()[0];
  return first === undefined || first === "{" || first === "[";
}

/** Undefined for what is no JSON object. */
export function asObject(json: unknown): Record<string, unknown> | undefined {
  return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : undefined;
}

/** The same, of an answer's text. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  return asObject(parseJson(text));
}

/** An answer that names an error, with what can be said when it does not. */
export function serverAnswer(status: number, text: string): ServerAnswer {
  const { error, reason } = parseObject(text) ?? {};
  return {
    status,
    error: typeof error === "string" ? shown(error) : `http_${status}`,
    reason: typeof reason === "string" ? shown(reason) : "",
  };
}
