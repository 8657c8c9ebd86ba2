/** Answers as JSON, from servers that may send anything. */
import { type JsonMember, splitObject, validateJson } from "../base/index.ts";

/** Whether an answer begins as JSON and is none, or is empty: a proxy may end a body in good order that broke off. */
export function isBroken(text: string): boolean {
  const first = text.trimStart()[0];
  if (first !== undefined && first !== "{" && first !== "[") return false;
  try {
    validateJson(text);
    return false;
  } catch {
    return true;
  }
}

/** Undefined for what is no JSON object. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined for what is no JSON array. */
export function parseArray(text: string): Partial<Record<string, unknown>>[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The members of an object with their values as text; undefined for what is no JSON object. */
export function splitAnswer(text: string): readonly JsonMember[] | undefined {
  try {
    return splitObject(text);
  } catch {
    return undefined;
  }
}
