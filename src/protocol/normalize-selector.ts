/**
 * Normal form of a Mango selector (`mango_selector:normalize`): bare values become `$eq`, multiple
 * conditions become `$and`, nested objects become dotted field names, and `$not` is pushed down.
 * Operands are unchanged.
 */
import { isJsonObject, sortMembers } from "../base/index.ts";

export type Selector = Readonly<Record<string, unknown>>;

const NEGATED: Readonly<Record<string, string>> = {
  $lt: "$gte",
  $lte: "$gt",
  $eq: "$ne",
  $ne: "$eq",
  $gte: "$lt",
  $gt: "$lte",
  $in: "$nin",
  $nin: "$in",
};

export function normalizeSelector(selector: Selector): unknown {
  return negations(fields(operators(selector)));
}

/**
 * Returns the normal form that CouchDB hashes for a replication id. Members of all objects are
 * sorted, including those of operands.
 */
export function hashedSelector(selector: Selector): unknown {
  return sortMembers(normalizeSelector(selector));
}

/** Makes operators explicit: `{a: 1, b: 2}` becomes `{$and: [{a: {$eq: 1}}, {b: {$eq: 2}}]}`. */
function operators(value: unknown): unknown {
  if (!isJsonObject(value)) return { $eq: value };
  const entries = Object.entries(value);
  if (entries.length === 0) return {};
  const terms = entries.map(([name, item]) => operator(name, item));
  return terms.length === 1 ? terms[0] : { $and: terms };
}

function operator(name: string, value: unknown): unknown {
  if (["$and", "$or", "$nor"].includes(name) && Array.isArray(value)) {
    return { [name]: value.map(operators) };
  }
  if (["$not", "$elemMatch", "$allMatch", "$keyMapMatch"].includes(name)) {
    return { [name]: operators(value) };
  }
  if (name.startsWith("$")) return { [name]: value };
  const isEmpty = isJsonObject(value) && Object.keys(value).length === 0;
  return { [name]: isEmpty ? { $eq: value } : operators(value) };
}

/**
 * Normalizes a selector, so that dotted paths of fields are outermost, with operators below them.
 * An empty selector stays empty only at the top level.
 */
function fields(value: unknown): unknown {
  return isJsonObject(value) && Object.keys(value).length === 0 ? {} : fieldsBelow(value, "");
}

/**
 * Handles nested conditions. An empty condition requires an empty object: as the value of its field
 * or, outside of all fields, as the whole document.
 */
function fieldsBelow(value: unknown, path: string): unknown {
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value);
  if (entries.length === 0) return { [path]: {} };
  const [name, item] = entries[0] as [string, unknown];
  if (["$and", "$or", "$nor"].includes(name) && Array.isArray(item)) {
    return { [name]: item.map((term) => fieldsBelow(term, path)) };
  }
  if (name === "$not") return { $not: fieldsBelow(item, path) };
  if (["$elemMatch", "$allMatch", "$keyMapMatch"].includes(name)) {
    return { [path]: { [name]: fields(item) } };
  }
  if (name.startsWith("$")) return { [path]: { [name]: item } };
  return fieldsBelow(item, path === "" ? name : `${path}.${name}`);
}

/**
 * Replaces `$not` by the opposite of the operator that it negates, if there is one (De Morgan,
 * complementary comparison), except within `$elemMatch`.
 */
function negations(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  const [name, item] = Object.entries(value)[0] ?? [];
  if (name === "$not") return negateSelector(item);
  if (name === "$nor" && Array.isArray(item)) return { $and: item.map(negateSelector) };
  if ((name === "$and" || name === "$or") && Array.isArray(item)) {
    return { [name]: item.map(negations) };
  }
  return value;
}

/** Returns the negation of a selector in normal form. */
export function negateSelector(value: unknown): unknown {
  if (!isJsonObject(value)) return { $not: value };
  const [name, item] = Object.entries(value)[0] ?? [];
  if (name === undefined) return { $not: value };
  if (name === "$and" && Array.isArray(item)) return { $or: item.map(negateSelector) };
  if (name === "$or" && Array.isArray(item)) return { $and: item.map(negateSelector) };
  if (name === "$nor" && Array.isArray(item)) return { $or: item.map(negations) };
  if (name === "$not") return negations(item);
  if (name === "$exists" && typeof item === "boolean") return { $exists: !item };
  const opposite = NEGATED[name];
  if (opposite !== undefined) return { [opposite]: item };
  if (name.startsWith("$")) return { $not: value };
  return { [name]: negateSelector(item) };
}
