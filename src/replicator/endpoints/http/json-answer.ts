/** Parses JSON answers of servers that may send anything. */
import { type JsonValue, outlineJson } from "../../../base/index.ts";
import type { ServerAnswer } from "../endpoint.ts";

/** What an answer says; undefined for what is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The same, to be cut down to values that so many brackets enclose. */
export function outlineAnswer(body: Uint8Array, depthMax: number): JsonValue | undefined {
  try {
    return outlineJson(body, { depthMax });
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
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
    error: typeof error === "string" ? error : `http_${status}`,
    reason: typeof reason === "string" ? reason : "",
  };
}
