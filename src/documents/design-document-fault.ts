/**
 * The form of a design document (`couch_mrview:validate`): the types of its members, and values that are impossible.
 */
type Kind = "array" | "boolean" | "object" | "string";

/** Of a member by its path; `*` stands for every name. CouchDB's list, in its order, which decides what is told first. */
const MEMBER_KINDS: readonly (readonly [path: string, ...kinds: Kind[]])[] = [
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

/** Names of reduce functions that begin like those of CouchDB itself. */
const BUILT_IN_REDUCE =
  /^_(sum|count|stats|approx_count_distinct|first|last|(top|bottom)_([1-9]\d?|100)$)/;

type Members = Readonly<Record<string, unknown>>;

/** CouchDB's sentence for a document, parsed, that is none; undefined for one that can be written. */
export function designDocumentFault(members: Members): string | undefined {
  for (const [path, ...kinds] of MEMBER_KINDS) {
    const failed = failingPath(members, path.split("."), kinds);
    if (failed !== undefined) return typeFault(failed, kinds);
  }
  return viewsFault(members) ?? optionsFault(members);
}

function typeFault(path: readonly string[], kinds: readonly Kind[]): string {
  return `\`${path.join(".")}\` field must have ${kinds.join(" or ")} type`;
}

/** The path of the first member that is there and is of none of the kinds. */
function failingPath(
  value: unknown,
  [name = "", ...rest]: readonly string[],
  kinds: readonly Kind[],
): string[] | undefined {
  if (!isMembers(value)) return undefined;
  const names = name === "*" ? Object.keys(value) : [name];
  for (const each of names) {
    const member = value[each];
    if (member === undefined) continue;
    if (rest.length > 0) {
      const failed = failingPath(member, rest, kinds);
      if (failed !== undefined) return [each, ...failed];
    } else if (!kinds.some((kind) => kind === kindOf(member))) return [each];
  }
  return undefined;
}

function viewsFault({ views, language }: Members): string | undefined {
  if (!isMembers(views)) return undefined;
  const all = Object.entries(views).filter(([name]) => name !== "lib") as [string, Members][];
  const kinds = { map: language === "query" ? "object" : "string", reduce: "string" } as const;
  for (const member of ["map", "reduce"] as const) {
    const kind = kinds[member];
    const bad = all.find(([, { [member]: it }]) => it !== undefined && kindOf(it) !== kind);
    if (bad !== undefined) return typeFault(["views", bad[0], member], [kind]);
  }
  const empty = all.find(([, { map }]) => map === undefined);
  if (empty !== undefined) return `View \`${empty[0]}\` must contain map function`;
  const reduces = all.map(([, { reduce }]) => reduce as string | undefined);
  const unknown = reduces.find((name) => name?.startsWith("_") && !BUILT_IN_REDUCE.test(name));
  if (unknown === undefined) return undefined;
  return `\`${unknown}\` is not a supported reduce function.`;
}

function optionsFault({ options }: Members): string | undefined {
  if (!isMembers(options) || options.partitioned !== true) return undefined;
  return "partitioned option cannot be true in a non-partitioned database.";
}

function isMembers(value: unknown): value is Members {
  return kindOf(value) === "object";
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
