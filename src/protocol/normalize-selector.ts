/**
 * A Mango selector in the one form that CouchDB hashes for a replication id (`mango_selector:normalize`): bare values become
 * `$eq`, several conditions become `$and`, nested objects become dotted field names, `$not` is pushed down, and the members
 * of every object are sorted.
 */

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
  return sortMembers(negations(fields(operators(selector))));
}

/** Explicit operators everywhere: `{a: 1, b: 2}` is `{$and: [{a: {$eq: 1}}, {b: {$eq: 2}}]}`. */
function operators(value: unknown): unknown {
  if (!isSelectorObject(value)) return { $eq: value };
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
  const isEmpty = isSelectorObject(value) && Object.keys(value).length === 0;
  return { [name]: isEmpty ? { $eq: value } : operators(value) };
}

/** Dotted names on the fields, operators below them. */
function fields(value: unknown, path = ""): unknown {
  if (!isSelectorObject(value)) return value;
  const entries = Object.entries(value);
  if (entries.length === 0) return path === "" ? {} : { [path]: {} };
  const [name, item] = entries[0] as [string, unknown];
  if (["$and", "$or", "$nor"].includes(name) && Array.isArray(item)) {
    return { [name]: item.map((term) => fields(term, path)) };
  }
  if (name === "$not") return { $not: fields(item, path) };
  if (["$elemMatch", "$allMatch", "$keyMapMatch"].includes(name)) {
    return { [path]: { [name]: fields(item) } };
  }
  if (name.startsWith("$")) return { [path]: { [name]: item } };
  return fields(item, path === "" ? name : `${path}.${name}`);
}

/** `$not` disappears where its opposite can be said (De Morgan, and the comparison's complement). */
function negations(value: unknown): unknown {
  if (!isSelectorObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, item]): [string, unknown][] => {
      if (name === "$not") return Object.entries(negateSelector(item) as Selector);
      if (name === "$nor" && Array.isArray(item)) return [["$and", item.map(negateSelector)]];
      if (["$and", "$or"].includes(name) && Array.isArray(item)) {
        return [[name, item.map(negations)]];
      }
      return [[name, isSelectorObject(item) ? negations(item) : item]];
    }),
  );
}

/** The opposite of a normal form. */
export function negateSelector(value: unknown): unknown {
  if (!isSelectorObject(value)) return { $not: value };
  const [name, item] = Object.entries(value)[0] ?? ["", undefined];
  if (name === "$and" && Array.isArray(item)) return { $or: item.map(negateSelector) };
  if (name === "$or" && Array.isArray(item)) return { $and: item.map(negateSelector) };
  if (name === "$nor" && Array.isArray(item)) return { $or: item.map(negations) };
  if (name === "$not") return negations(item);
  const opposite = NEGATED[name];
  if (opposite !== undefined) return { [opposite]: item };
  if (name.startsWith("$")) return { $not: value };
  return { [name]: negateSelector(item) };
}

function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (!isSelectorObject(value)) return value;
  const sorted = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(sorted.map(([name, item]) => [name, sortMembers(item)]));
}

export function isSelectorObject(value: unknown): value is Selector {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
