/** Query parameters, with CouchDB's messages for invalid ones. */
import { outlineJson, parseJson, printJson } from "../../base/index.ts";
import {
  type IntegerParameter,
  type Parameter,
  QUERIES,
  type Query,
  type QueryValues,
} from "../../contract/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import type { Call } from "./call.ts";
import type { ApiRequest } from "./exchange.ts";

export function queryError(reason: string): ProtocolError {
  return new ProtocolError(400, "query_parse_error", reason);
}

/** Boolean query parameter, `true` or `false`; `fallback` if absent. */
export function booleanParameter(call: Call, name: string, fallback = false): boolean {
  const text = call.request.query.get(name);
  return text === undefined ? fallback : booleanOf(text);
}

/**
 * Boolean query parameter of a read: `true` in any letter case. As in CouchDB, every other value,
 * such as `revs=1` from PHP clients, counts as false.
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

/**
 * Rejects unknown and repeated query parameters of resources below `/_tandem/`. All other resources
 * ignore unknown parameters, as in CouchDB.
 */
export function checkParameters(
  { method, query, repeatedParameter }: ApiRequest,
  path: string,
): void {
  if (!path.startsWith("/_tandem/")) return;
  if (repeatedParameter !== undefined) {
    throw badRequest(`Parameter ${repeatedParameter} is given more than once`);
  }
  const name = `${method === "HEAD" ? "GET" : method} ${path}`;
  const known = Object.keys((QUERIES as Readonly<Record<string, Query>>)[name] ?? {});
  for (const parameter of query.keys()) {
    if (known.includes(parameter)) continue;
    const choice =
      known.length === 0
        ? "This resource accepts no parameters"
        : `Choose from: ${known.join(", ")}`;
    throw badRequest(`Unknown parameter ${parameter}. ${choice}`);
  }
}

/** Parses the query of a resource below `/_tandem/`. Throws a ProtocolError 400. */
export function readQuery<Parameters extends Query>(
  call: Call,
  parameters: Parameters,
): QueryValues<Parameters> {
  const values = Object.entries(parameters).map(([name, parameter]) => [
    name,
    parsedValue(call, name, parameter),
  ]);
  return Object.fromEntries(values) as QueryValues<Parameters>;
}

function parsedValue(call: Call, name: string, parameter: Parameter): unknown {
  const text = call.request.query.get(name);
  if (parameter.kind === "integer") return boundedInteger(call, name, parameter);
  if (text === undefined) return undefined;
  switch (parameter.kind) {
    case "text":
      return text;
    case "json":
      return jsonParameter(call, name);
    case "flag":
      return booleanOf(text);
    case "choice":
      return knownValue(text, name, parameter.values);
    case "choices":
      return [...new Set(text.split(",").map((part) => knownValue(part, name, parameter.values)))];
  }
}

function boundedInteger(
  call: Call,
  name: string,
  { min = 0, max = Number.MAX_SAFE_INTEGER, cap = max, default: fallback }: IntegerParameter,
): number | undefined {
  const value = integerParameter(call, name);
  if (value === undefined) return fallback;
  if (value >= min && value <= max) return Math.min(value, cap);
  const range = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `${min} to ${max}`;
  throw badRequest(`${name}: expected ${range}`);
}

function knownValue(text: string, name: string, values: readonly string[]): string {
  const found = values.find((value) => value === text.toLowerCase());
  if (found !== undefined) return found;
  throw badRequest(`Unknown ${name} ${text}. Choose from: ${values.join(", ")}`);
}
