/** Validation of design documents. */
import { describe } from "vitest";
import { FILMS, type Row, refusal, testRows } from "../rows.ts";

const bad = (body: object, reason: string): Row => ({
  name: JSON.stringify(body),
  ask: "PUT /films/_design/d",
  body,
  ...refusal(400, "invalid_design_doc", reason),
});
const good = (body: object): Row => ({
  name: JSON.stringify(body),
  ask: "PUT /films/_design/d",
  body,
  status: 201,
});
const wrongType = (body: object, path: string, kinds: string): Row =>
  bad(body, `\`${path}\` field must have ${kinds} type`);
const map = "function(doc){}";

describe("an invalid design document is refused", () => {
  testRows(FILMS, [
    wrongType({ language: 3 }, "language", "string"),
    wrongType({ language: null }, "language", "string"),
    wrongType({ views: [] }, "views", "object"),
    wrongType({ views: null }, "views", "object"),
    wrongType({ views: { a: 3 } }, "views.a", "object"),
    wrongType({ views: { a: null } }, "views.a", "object"),
    wrongType({ views: { lib: 3 } }, "views.lib", "object"),
    bad({ views: { a: {} } }, "View `a` must contain map function"),
    wrongType({ views: { a: { map: 3 } } }, "views.a.map", "string"),
    wrongType({ views: { a: { map } }, language: "query" }, "views.a.map", "object"),
    wrongType({ views: { a: { map, reduce: 3 } } }, "views.a.reduce", "string"),
    bad({ views: { a: { map, reduce: "_no" } } }, "`_no` is not a supported reduce function."),
    wrongType({ filters: 3 }, "filters", "object"),
    wrongType({ filters: null }, "filters", "object"),
    wrongType({ filters: { a: 3 } }, "filters.a", "string or object"),
    wrongType({ updates: { a: 3 } }, "updates.a", "string or object"),
    wrongType({ lists: [] }, "lists", "object"),
    wrongType({ shows: { a: true } }, "shows.a", "string or object"),
    wrongType({ options: 3 }, "options", "object"),
    wrongType({ options: { local_seq: 3 } }, "options.local_seq", "boolean"),
    wrongType({ options: { partitioned: 3 } }, "options.partitioned", "boolean"),
    bad(
      { options: { partitioned: true } },
      "partitioned option cannot be true in a non-partitioned database.",
    ),
    wrongType({ rewrites: {} }, "rewrites", "array or string"),
    wrongType({ validate_doc_update: 3 }, "validate_doc_update", "string"),
    wrongType({ validate_doc_update: null }, "validate_doc_update", "string"),
    wrongType({ language: 3, filters: 3 }, "filters", "object"),
    {
      name: "among others, which are written",
      ask: "POST /films/_bulk_docs",
      body: { docs: [{ _id: "_design/d", views: 3 }, { _id: "a" }] },
      status: 201,
      has: [
        {
          id: "_design/d",
          error: "invalid_design_doc",
          reason: "`views` field must have object type",
        },
        { id: "a", ok: true },
      ],
    },
    {
      name: "when it is replicated",
      ask: "POST /films/_bulk_docs",
      body: { docs: [{ _id: "_design/d", _rev: "1-a", views: 3 }], new_edits: false },
      status: 201,
      has: [{ id: "_design/d", error: "invalid_design_doc" }],
    },
  ]);
});

describe("a design document whose views do not compile is refused", () => {
  const uncompiled = (kind: string, error: string) =>
    refusal(
      400,
      "compilation_error",
      `Compilation of the ${kind} function in the 'a' view failed: ${error}`,
    );
  const bad = (view: object, kind: string, error: string): Row => ({
    name: JSON.stringify(view),
    ask: "PUT /films/_design/d",
    body: { views: { a: view } },
    ...uncompiled(kind, error),
  });
  const unfinished = "function(";
  const unfinishedError = "SyntaxError: missing formal parameter (function()";
  const noFunction = "Expression does not eval to a function.";
  testRows(FILMS, [
    bad({ map: unfinished }, "map", unfinishedError),
    bad({ map, reduce: unfinished }, "reduce", unfinishedError),
    bad({ map: unfinished, reduce: "42" }, "map", unfinishedError),
    bad({ map: "42" }, "map", `${noFunction} (42)`),
    bad({ map: " " }, "map", `${noFunction} ( )`),
    bad({ map, reduce: "null" }, "reduce", `${noFunction} (null)`),
    bad({ map: "nope" }, "map", "ReferenceError: 'nope' is not defined (nope)"),
    bad({ map: "throw 1" }, "map", "1 (throw 1)"),
    {
      name: "if a function is empty",
      ask: "PUT /films/_design/d",
      body: { views: { a: { map: "" } } },
      ...refusal(404, "not_found", "missing function"),
    },
    {
      name: "if a function is truncated",
      ask: "PUT /films/_design/d",
      body: { views: { a: { map: "for (;;);" } } },
      ...refusal(500, "os_process_error", "OS process timed out."),
    },
    {
      name: "by POST",
      ask: "POST /films",
      body: { _id: "_design/d", views: { a: { map: unfinished } } },
      ...uncompiled("map", unfinishedError),
    },
    {
      name: "when it is replicated",
      ask: "PUT /films/_design/d?new_edits=false",
      body: { _rev: "1-a", views: { a: { map: unfinished } } },
      ...uncompiled("map", unfinishedError),
    },
    {
      name: "among others, which are written",
      ask: "POST /films/_bulk_docs",
      body: { docs: [{ _id: "_design/d", views: { a: { map: unfinished } } }, { _id: "x" }] },
      status: 201,
      has: [
        { id: "_design/d", error: "compilation_error" },
        { id: "x", ok: true },
      ],
    },
    {
      name: "among other replicated documents, which are written",
      ask: "POST /films/_bulk_docs",
      body: {
        new_edits: false,
        docs: [
          { _id: "_design/d", _rev: "1-a", views: { a: { map: unfinished } } },
          { _id: "x", _rev: "1-a" },
        ],
      },
      status: 201,
      has: [{ id: "_design/d", rev: "1-a", error: "compilation_error" }],
    },
  ]);
});

describe("a valid design document is written", () => {
  testRows(FILMS, [
    good({ views: { a: { map, reduce: "_sum" } } }),
    good({ views: { a: { map, reduce: "_approx_count_distinct" } } }),
    good({ views: { "": { map } } }),
    good({ views: { lib: { x: "exports.a = 1" } } }),
    good({ views: { lib: { x: "(((" }, a: { map } } }),
    good({ views: { a: { map: "(doc) => { emit(doc._id) }" } } }),
    good({ views: { a: { map: "// by year\nfunction(doc){};" } } }),
    good({ views: { a: { map: "function(doc){}; var more = 1" } } }),
    good({ views: { a: { map: "function(doc){ require('views/lib/nope') }" } } }),
    {
      ...good({ views: { a: { map: "function named(doc){}" } } }),
      differs: "CouchDB's QuickJS refuses a name there, its SpiderMonkey accepts it",
    },
    good({ views: { a: { map: "x" } }, language: "something else" }),
    good({ views: { a: { map: { fields: { x: "asc" } } } }, language: "query" }),
    good({ filters: { a: "function(" } }),
    good({ shows: { a: { b: 3 } } }),
    good({ rewrites: [{ from: 3 }] }),
    good({ rewrites: "function" }),
    good({ validate_doc_update: "function(" }),
    good({ autoupdate: 3, signatures: 3, indexes: 3 }),
  ]);
});
