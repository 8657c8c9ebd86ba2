/**
 * Checks the structure of a design document (`couch_mrview:validate`): the types of its members,
 * and invalid values. Yields to the event loop while checking a long document.
 */
import type { JsonKind, JsonValue, NamedValue, Yielder } from "../base/index.ts";
import type { DesignOutline } from "./design-outline.ts";

/**
 * Permitted types by member path of one or two names; `*` stands for every name. In CouchDB's
 * order, which decides which error is reported first.
 */
const MEMBER_KINDS: readonly (readonly [path: string, ...kinds: JsonKind[]])[] = [
  ["filters", "object"],
  ["filters.*", "string", "object"],
  ["language", "string"],
  ["lists", "object"],
  ["lists.*", "string", "object"],
  ["options", "object"],
  ["options.include_design", "boolean"],
  ["options.local_seq", "boolean"],
  ["options.partitioned", "boolean"],
  ["rewrites", "array", "string"],
  ["shows", "object"],
  ["shows.*", "string", "object"],
  ["updates", "object"],
  ["updates.*", "string", "object"],
  ["validate_doc_update", "string"],
  ["views", "object"],
  ["views.lib", "object"],
  ["views.*", "object"],
];

/** Names of CouchDB's built-in reduce functions. */
const BUILT_IN_REDUCE =
  /^_(sum|count|stats|approx_count_distinct|first|last|(top|bottom)_([1-9]\d?|100)$)/;

/**
 * Maximum number of members of `views`, `filters` and similar objects in a design document. CouchDB
 * has no limit and builds one index for all views.
 */
const FUNCTIONS_MAX = 10_000;

/** Number of members checked before yielding to the event loop. */
const TURN_MEMBERS = 1_000;

/**
 * Returns CouchDB's error message for an invalid design document, or `undefined` if it is valid.
 */
export async function designDocumentFault(
  design: DesignOutline,
  yielder: Yielder,
): Promise<string | undefined> {
  for (const [path, ...kinds] of MEMBER_KINDS) {
    if (yielder.isDue) await yielder.yield();
    const [group = "", name] = path.split(".");
    if (name === "*" && ((await design.member(group))?.memberCount ?? 0) > FUNCTIONS_MAX) {
      return `\`${group}\` field has more than ${FUNCTIONS_MAX} members`;
    }
    const failed = await failingPath(design, path, kinds, yielder);
    if (failed !== undefined) return typeFault(failed, kinds);
  }
  return (await viewsFault(design, yielder)) ?? (await optionsFault(design));
}

/** Returns the first member of an object that satisfies the predicate. */
async function firstMember(
  object: JsonValue,
  yielder: Yielder,
  isAsked: (value: JsonValue, name: string) => boolean,
): Promise<NamedValue | undefined> {
  let count = 0;
  for (const member of object.eachValue()) {
    if (++count % TURN_MEMBERS === 0 && yielder.isDue) await yielder.yield();
    if (isAsked(member.value, member.name)) return member;
  }
  return undefined;
}

function typeFault(path: string, kinds: readonly JsonKind[]): string {
  return `\`${path}\` field must have ${kinds.join(" or ")} type`;
}

/** Returns the path of the first member whose type is not in `kinds`. */
async function failingPath(
  design: DesignOutline,
  path: string,
  kinds: readonly JsonKind[],
  yielder: Yielder,
): Promise<string | undefined> {
  const isBad = ({ kind }: JsonValue): boolean => !kinds.includes(kind);
  const [group = "", name] = path.split(".");
  const value = await design.member(group);
  if (value === undefined) return undefined;
  if (name === "*") {
    const bad = value.isObject ? await firstMember(value, yielder, isBad) : undefined;
    return bad && `${group}.${bad.name}`;
  }
  const member = name === undefined ? value : value.member(name);
  return member !== undefined && isBad(member) ? path : undefined;
}

async function viewsFault(design: DesignOutline, yielder: Yielder): Promise<string | undefined> {
  const views = await design.member("views");
  if (views === undefined) return undefined;
  const isQuery = (await design.member("language"))?.isString("query") === true;
  const kinds = { map: isQuery ? "object" : "string", reduce: "string" } as const;
  const firstView = (isAsked: (view: JsonValue) => boolean) =>
    firstMember(views, yielder, (view, name) => name !== "lib" && isAsked(view));
  for (const member of ["map", "reduce"] as const) {
    const kind = kinds[member];
    const bad = await firstView((view) => (view.member(member)?.kind ?? kind) !== kind);
    if (bad !== undefined) return typeFault(`views.${bad.name}.${member}`, [kind]);
  }
  const empty = await firstView((view) => view.member("map") === undefined);
  if (empty !== undefined) return `View \`${empty.name}\` must contain map function`;
  const unknown = await firstView((view) => isUnknownReduce(view.member("reduce")?.string));
  if (unknown === undefined) return undefined;
  return `\`${unknown.value.member("reduce")?.string}\` is not a supported reduce function.`;
}

function isUnknownReduce(reduce = ""): boolean {
  return reduce.startsWith("_") && !BUILT_IN_REDUCE.test(reduce);
}

async function optionsFault(design: DesignOutline): Promise<string | undefined> {
  const options = await design.member("options");
  if (options?.member("partitioned")?.text !== "true") return undefined;
  return "partitioned option cannot be true in a non-partitioned database.";
}
