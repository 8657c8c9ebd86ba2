/**
 * The response of `_explain`: the plan of a query, and why the other indexes are not used.
 */
import { type Bound, covers, type Range } from "../../indexes/index.ts";
import { bookmarkText, type FindQuery } from "./find-query.ts";
import { isCovered, type ListedIndex, type Plan } from "./plan.ts";

/** CouchDB's placeholder for the upper end of an open range. */
const HIGHEST = "<MAX>";

export function explanation(database: string, query: FindQuery, plan: Plan): object {
  const { fields, limit, skip, conflicts, ignored } = query;
  return {
    dbname: database,
    index: plan.kind === "chosen" ? indexView(plan.index) : null,
    partitioned: false,
    selector: query.selector,
    opts: {
      use_index: query.useIndex,
      bookmark: bookmarkText(query.bookmark),
      limit,
      skip,
      sort: query.sort,
      fields,
      partition: "",
      r: ignored.r,
      conflicts,
      stale: ignored.stale,
      update: ignored.update,
      stable: ignored.stable,
      execution_stats: query.executionStatistics,
      allow_fallback: query.allowFallback,
    },
    limit,
    skip,
    fields,
    // As in CouchDB, the candidates are sorted by name in descending order.
    index_candidates: plan.rejected.toReversed().map(({ index, isUsable, reason, ranking }) => ({
      index: indexView(index),
      analysis: {
        usable: isUsable,
        reasons: [{ name: reason }],
        ranking,
        covering: index.source === undefined ? null : fields.length > 0 && covers(index, fields),
      },
    })),
    selector_hints: [
      {
        type: "json",
        indexable_fields: query.selectorFields.indexable,
        unindexable_fields: query.selectorFields.unindexable,
      },
    ],
    ...(plan.kind === "chosen" ? readingOf(query, plan) : {}),
  };
}

/** JSON of an index in `_index` and `_explain`. */
export function indexView({ source }: ListedIndex): object {
  if (source === undefined) {
    const def = { fields: [{ _id: "asc" }] };
    return { ddoc: null, name: "_all_docs", type: "special", def };
  }
  const { design, name, fields, partialFilter } = source.stored;
  return {
    ddoc: design,
    name,
    type: "json",
    partitioned: false,
    def: {
      fields: fields.map((field) => ({ [field.name]: field.direction })),
      ...(partialFilter === undefined ? {} : { partial_filter_selector: partialFilter }),
    },
  };
}

/** Parameters for reading the chosen index. */
function readingOf(query: FindQuery, plan: Plan & { readonly kind: "chosen" }): object {
  const { descending, ignored, conflicts } = query;
  const covering = isCovered(plan.index, query);
  const { start, end } = boundsOf(query, plan);
  const [start_key, end_key] = descending ? [end, start] : [start, end];
  const mrargs = {
    // False for a covering index, and for a quorum above 1, because CouchDB then reads documents
    // separately from the index.
    include_docs: !covering && ignored.r === 1,
    view_type: "map",
    reduce: false,
    partition: null,
    start_key,
    end_key,
    direction: descending ? "rev" : "fwd",
    stable: ignored.stable || ignored.stale !== false,
    update: ignored.update && ignored.stale === false,
    conflicts: conflicts || "undefined",
  };
  return { mrargs, covering };
}

function boundsOf(
  { isEmpty, idBounds, descending }: FindQuery,
  { index, ranges }: Plan & { readonly kind: "chosen" },
): { readonly start: unknown; readonly end: unknown } {
  if (index.source === undefined) {
    const { low = descending ? "" : null, shownHigh: high = HIGHEST } = idBounds;
    return { start: low, end: high };
  }
  const bounds = ranges.filter((range) => range !== "empty");
  if (isEmpty || bounds.length < ranges.length) return { start: null, end: null };
  const start = shownUntilOpen(bounds, ({ low }) => low);
  const end = shownUntilOpen(bounds, ({ high }) => high);
  return { start, end: [...end, HIGHEST] };
}

function shownUntilOpen(ranges: readonly Range[], side: (range: Range) => Bound): unknown[] {
  const bounds = ranges.map(side);
  const open = bounds.findIndex((bound) => !("value" in bound));
  return bounds.slice(0, open < 0 ? bounds.length : open).map(({ shown }) => shown);
}
