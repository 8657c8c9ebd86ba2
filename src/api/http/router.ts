/**
 * Finds the handler of a path by CouchDB's rules (`chttpd`): the raw path is split at slashes,
 * empty segments are dropped, and each segment is decoded separately and leniently. Thus
 * `/db//doc/` is `/db/doc`, and `/a%2Fb` is the database `a/b`.
 */
import { concatBytes, largest, utf8Decode, utf8Encode } from "../../base/index.ts";
import { badRequest } from "../../protocol/index.ts";
import type { Handler } from "./call.ts";
import type { RouteFacts } from "./route-facts.ts";

/**
 * A resource with its methods. In `path`, `{name}` matches one segment, and a final `{name...}`
 * matches one or more, joined by slashes. `{database}` does not match names of server resources.
 */
export interface Route {
  readonly methods: readonly string[];
  readonly path: string;
  readonly facts: RouteFacts;
  readonly handle: Handler;
}

/** Defines a route. A GET route also handles HEAD. */
export function defineRoute(
  methods: string | readonly string[],
  path: string,
  facts: RouteFacts,
  handle: Handler,
): Route {
  const named = typeof methods === "string" ? [methods] : methods;
  const all = named.includes("GET") ? [...named, "HEAD"] : named;
  return { methods: [...new Set(all)], path, facts, handle };
}

export type Match =
  | {
      readonly kind: "found";
      readonly route: Route;
      readonly parameters: ReadonlyMap<string, string>;
    }
  | {
      readonly kind: "wrong-method";
      readonly allowed: readonly string[];
      /** Properties of a route with the requested path, but another method. */
      readonly facts: RouteFacts;
    }
  | { readonly kind: "unknown" };

type Segment = { readonly kind: "text" | "one" | "rest"; readonly text: string };

interface Pattern {
  readonly segments: readonly Segment[];
  readonly routes: Route[];
}

const SYSTEM_DATABASES = ["_users", "_replicator", "_global_changes"];

export class Router {
  readonly #routes: readonly Route[];
  /**
   * Patterns by path length: index n has the patterns that match n segments, and the last index has
   * those that match any longer path.
   */
  readonly #patternsByLength: readonly (readonly Pattern[])[];

  /** If two routes have the same path and method, the later one wins. */
  constructor(routes: readonly Route[]) {
    this.#routes = routes;
    const patterns = new Map<string, Pattern>();
    for (const route of routes) {
      const known = patterns.get(route.path);
      if (known === undefined) {
        patterns.set(route.path, { segments: parsePath(route.path), routes: [route] });
      } else known.routes.unshift(route);
    }
    const sorted = [...patterns.values()].sort(bySpecificity);
    const lengthMax = largest(
      sorted.map(({ segments }) => segments.length),
      0,
    );
    this.#patternsByLength = Array.from({ length: lengthMax + 2 }, (_, length) =>
      sorted.filter(({ segments }) => fitsLength(segments, length)),
    );
  }

  /** Methods and paths of the routes that are allowed in a batch, sorted. */
  get batched(): readonly string[] {
    return this.#routes
      .filter(({ facts }) => facts.isBatched)
      .flatMap(({ methods, path }) => methods.map((method) => `${method} ${path}`))
      .filter((name) => !name.startsWith("HEAD"))
      .sort();
  }

  match(method: string, segments: readonly string[]): Match {
    const place = Math.min(segments.length, this.#patternsByLength.length - 1);
    for (const { segments: pattern, routes } of this.#patternsByLength[place] ?? []) {
      if (!isMatch(pattern, segments)) continue;
      const route = routes.find(({ methods }) => methods.includes(method));
      if (route !== undefined) {
        return { kind: "found", route, parameters: parametersOf(pattern, segments) };
      }
      const [{ facts }] = routes as [Route];
      return { kind: "wrong-method", allowed: allowedMethods(routes), facts };
    }
    return { kind: "unknown" };
  }
}

/**
 * The decoded segments of a raw path. Throws a ProtocolError if a segment is not UTF-8. As in
 * CouchDB, `+` is decoded as a space, unless `plusIsSpace` is false.
 */
export function splitPath(path: string, { plusIsSpace = true } = {}): string[] {
  return path
    .split("/")
    .filter((segment) => segment !== "")
    .map((segment) => decodeSegment(plusIsSpace ? segment.replaceAll("+", " ") : segment));
}

/** Whether the first segment of a path names a database rather than a resource of the server. */
export function isDatabaseSegment(segment: string): boolean {
  return !segment.startsWith("_") || SYSTEM_DATABASES.includes(segment);
}

/** Invalid percent-escapes are left unchanged, as in CouchDB. */
function decodeSegment(segment: string): string {
  if (!segment.includes("%")) return segment;
  const parts: Uint8Array[] = [];
  for (const part of segment.split(/(%[0-9a-fA-F]{2})/)) {
    const isEscape = /^%[0-9a-fA-F]{2}$/.test(part);
    parts.push(isEscape ? Uint8Array.of(Number.parseInt(part.slice(1), 16)) : utf8Encode(part));
  }
  try {
    return utf8Decode(concatBytes(parts));
  } catch {
    throw badRequest("The path is not UTF-8 encoded");
  }
}

function parsePath(path: string): Segment[] {
  return path
    .split("/")
    .filter((segment) => segment !== "")
    .map((segment) => {
      if (!segment.startsWith("{")) return { kind: "text", text: segment };
      const name = segment.slice(1, -1);
      if (name.endsWith("...")) return { kind: "rest", text: name.slice(0, -3) };
      return { kind: "one", text: name };
    });
}

const KIND_ORDER = ["text", "one", "rest"];

/** Sort order of patterns: fixed text before placeholders, one segment before several. */
function bySpecificity(left: Pattern, right: Pattern): number {
  const length = Math.max(left.segments.length, right.segments.length);
  for (let index = 0; index < length; index++) {
    const order =
      KIND_ORDER.indexOf(left.segments[index]?.kind ?? "") -
      KIND_ORDER.indexOf(right.segments[index]?.kind ?? "");
    if (order !== 0) return order;
  }
  return 0;
}

function fitsLength(pattern: readonly Segment[], length: number): boolean {
  const isOpen = pattern.at(-1)?.kind === "rest";
  return isOpen ? length >= pattern.length : length === pattern.length;
}

/** Whether the pattern matches a path that has a permitted number of segments. */
function isMatch(pattern: readonly Segment[], segments: readonly string[]): boolean {
  return pattern.every(({ kind, text }, index) => {
    const segment = segments[index] as string;
    if (kind === "text") return segment === text;
    return !(text === "database" && kind === "one" && index === 0) || isDatabaseSegment(segment);
  });
}

function parametersOf(
  pattern: readonly Segment[],
  segments: readonly string[],
): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  for (const [index, { kind, text }] of pattern.entries()) {
    if (kind === "one") parameters.set(text, segments[index] as string);
    if (kind === "rest") parameters.set(text, segments.slice(index).join("/"));
  }
  return parameters;
}

function allowedMethods(routes: readonly Route[]): string[] {
  return [...new Set(routes.flatMap(({ methods }) => methods))].sort();
}
