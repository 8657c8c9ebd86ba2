/** Query parameters, with CouchDB's messages for invalid ones. */
import { outlineJson, parseJson, printJson } from "../../base/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import type { Call } from "./call.ts";

export function queryError(reason: string): ProtocolError {
  return new ProtocolError(400, "query_parse_error", reason);
}

/** Boolean query parameter, `true` or `false`; `fallback` if absent. */
export function booleanParameter(call: Call, name: string, fallback = false): boolean {
  const text = call.request.query.get(name);
  return text === undefined ? fallback : booleanOf(text);
}

/**
 * Boolean query parameter of a read. Only `true` and `True` count as true; as in CouchDB, other
 * values, such as `revs=1` from PHP clients, are ignored.
 */
export function flagParameter(call: Call, name: string, fallback = false): boolean {
  const text = call.request.query.get(name);
  return text === undefined ? fallback : text.toLowerCase() === "true";
}

/**
 * Boolean from a query or body: `true` or `false`, also as a string in any letter case, since some
 * languages write `True`.
 */
export function booleanOf(value: unknown): boolean {
  const word = typeof value === "string" ? value.toLowerCase() : value;
  if (word === true || word === "true") return true;
  if (word === false || word === "false") return false;
  throw queryError(`Invalid boolean parameter: ${printJson(value)}`);
}

/** Query parameter with a non-negative integer; undefined if absent. */
export function integerParameter(call: Call, name: string): number | undefined {
  const text = call.request.query.get(name);
  if (text === undefined) return undefined;
  if (!/^[+-]?[0-9]+$/.test(text)) throw queryError(`${name} must be an integer`);
  const value = Number(text);
  if (value < 0) throw queryError(`${name} not in range of [0,infinity]`);
  return Math.min(value, Number.MAX_SAFE_INTEGER);
}

/** Query parameter in JSON, parsed by `parseJson`; undefined if absent. */
export function jsonParameter(call: Call, name: string): unknown {
  const text = call.request.query.get(name);
  if (text === undefined) return undefined;
  const value = queryValue(text);
  if (value !== undefined) return value;
  throw new ProtocolError(400, "bad_request", `${name} must be valid JSON`);
}

/**
 * Parses a JSON parameter; returns `undefined` if it is invalid. As in bodies, unpaired surrogates
 * are invalid.
 */
export function queryValue(text: string): unknown {
  try {
    outlineJson(text, { isPortable: true });
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Query parameter with a JSON list of strings; undefined if absent. */
export function textListParameter(call: Call, name: string): readonly string[] | undefined {
  const value = jsonParameter(call, name);
  if (value === undefined) return undefined;
  if (isTextList(value)) return value;
  throw new ProtocolError(400, "bad_request", `${name} must be a JSON array of strings`);
}

export function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
