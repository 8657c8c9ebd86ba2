import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type LongText, utf8Encode } from "../../src/base/index.ts";
import type { SandboxCall } from "../../src/databases/index.ts";
import { SandboxPool } from "../../src/host/sandbox/pool.ts";
import { createSystemRuntime } from "../../src/host/system/runtime.ts";

const events: { name: string; message?: unknown }[] = [];
let pool: SandboxPool;

beforeAll(() => {
  const runtime = createSystemRuntime({
    event: (name, fields) => events.push({ name, ...fields }),
  });
  pool = new SandboxPool(runtime);
});

afterAll(() => pool.close());

const DESIGN = {
  _id: "_design/d",
  lib: {
    m: "exports.big = function (n) { return n > require('./k').min; };",
    k: "exports.min = 1;",
    bad: "throw new Error('boom')",
    up: { x: "module.exports = require('../m');" },
    cycle: "exports.a = 1; exports.b = require('./cycle').a;",
  },
  views: {
    lib: { q: "exports.a = 1" },
    v: { map: "function (doc) { if (doc.n > 1) emit(null); }" },
  },
};

const codeOf = (design: object): LongText => [utf8Encode(JSON.stringify(design))];

let codeCount = 0;

function callOf(source: string, more: Partial<SandboxCall> = {}): SandboxCall {
  return {
    codeId: String(codeCount++),
    code: codeOf({ ...DESIGN, filters: { f: source } }),
    kind: "filter",
    path: ["filters", "f"],
    runs: ['[{"n":1}]', '[{"n":2}]'],
    shared: '[{"query":{}}]',
    timeoutMs: 5_000,
    ...more,
  };
}

function filter(source: string, more: Partial<SandboxCall> = {}): Promise<boolean[]> {
  return pool.call({ ...callOf(source, more), kind: "filter" });
}

const TWO_PASS = "doc.n > 1";

describe("sources that are functions", () => {
  test.each([
    [`function (doc, req) { return ${TWO_PASS}; }`],
    [`function (doc, req) { return ${TWO_PASS}; };\n\n`],
    [`(function (doc, req) { return ${TWO_PASS}; })`],
    [`function named(doc) { return ${TWO_PASS}; }`],
    [`// a comment\nfunction (doc) { return ${TWO_PASS}; } // at the end`],
    [`(doc, req) => ${TWO_PASS}`],
    [`function helper(doc) { return ${TWO_PASS}; }; helper`],
    ["function (doc) { return require('lib/m').big(doc.n); }"],
    ["function (doc) { return require('lib/up/x').big(doc.n); }"],
    ["function (doc) { return require('lib/cycle').b === 1 && doc.n > 1; }"],
    ["function (doc) { return require('views/lib/q').a === 1 && doc.n > 1; }"],
    [
      "function (doc, req) { return isArray([]) && sum([1, 2]) === 3 && toJSON(req) === '{\"query\":{}}' && doc.n > 1; }",
    ],
    ["function (doc) { return this._id === '_design/d' && doc.n > 1; }"],
    ["function (doc) { return doc.n > 1 ? 'yes' : ''; }"],
  ])("%s", async (source) => {
    expect(await filter(source)).toEqual([false, true]);
  });
});

describe("failures", () => {
  test.each([
    ["function (doc {", "compilation_error", /^SyntaxError: .*\(function \(doc \{\)$/],
    ["42", "compilation_error", /^Expression does not eval to a function\. \(42\)$/],
    ["", "not_found", /^missing function$/],
    ["function () { throw new Error('bad'); }", "Error", /^bad$/],
    ["function () { return nope(); }", "ReferenceError", /nope/],
    ["function () { throw 'x'; }", "unnamed_error", /^x$/],
    ["function () { throw ['error', 'a', 'b']; }", "a", /^b$/],
    ["function () { require('lib/zz'); }", "invalid_require_path", /zz/],
    [
      "function () { require('lib'); }",
      "invalid_require_path",
      /^Must require a JavaScript string/,
    ],
    ["function () { require('../../x'); }", "invalid_require_path", /^Object has no parent/],
    [
      "function () { require('lib/bad'); }",
      "compilation_error",
      /'lib\/bad'.*raised error Error: boom/,
    ],
    ["function () { require('constructor'); }", "invalid_require_path", /constructor/],
    ["function () { function f() { return f() + 1; } return f(); }", "InternalError", /stack/],
  ])("%s", async (source, error, reason) => {
    await expect(filter(source)).rejects.toMatchObject({
      error,
      reason: expect.stringMatching(reason),
    });
  });

  test("a path without a function is refused as not found", async () => {
    await expect(filter("", { path: ["filters", "nope"] })).rejects.toMatchObject({
      error: "not_found",
      reason: "missing json key: nope",
    });
  });
});

describe("functions that resolve conflicts", () => {
  const resolve = (source: string, ...documents: readonly unknown[]) => {
    const runs = [JSON.stringify(documents)];
    return pool.call({ ...callOf(source), kind: "resolve", runs, shared: "[]" });
  };

  test.each([
    ["function (docs) { return docs[1]; }", 1],
    ["function (docs) { return { n: docs[0].n + docs.length }; }", '{"n":3}'],
    ["function (docs) { docs[0].n = 5; return docs[0]; }", '{"n":5}'],
    ["function (docs) { return null; }", null],
    ["function (docs) { }", null],
    [
      "function (docs) { return { at: new Date('2026-01-01').getTime() }; }",
      '{"at":1767225600000}',
    ],
  ])("%s returns %j", async (source, expected) => {
    expect(await resolve(source, { n: 1 }, { n: 2 })).toEqual([expected]);
  });

  test("a long document is passed, and returned unchanged", async () => {
    const long = [utf8Encode(JSON.stringify({ text: "é".repeat(100_000) }))];
    const call = callOf("function (docs) { return docs[docs[1].text.length === 100000 ? 1 : 0]; }");
    const runs = [[[utf8Encode("{}")], long]];
    expect(await pool.call({ ...call, kind: "resolve", runs, shared: "[]" })).toEqual([1]);
  });

  test.each([
    ["return [docs[0]]", "must return a document or null"],
    ["return 'x'", "must return a document or null"],
    ["return { at: Date.now() }", "Date.now is not available"],
    ["return { at: new Date() }", "The current time is not available"],
    ["return { at: Date() }", "The current time is not available"],
    ["return { at: new (new Date(0).constructor)() }", "The current time is not available"],
    ["return { n: Math.random() }", "Math.random is not available"],
  ])("%s fails", async (body, reason) => {
    await expect(resolve(`function (docs) { ${body}; }`, {}, {})).rejects.toMatchObject({
      reason: expect.stringContaining(reason),
    });
  });
});

describe("limits", () => {
  const timeoutMs = 100;

  test.each([
    ["a loop", "function () { for (;;); }"],
    ["a loop that catches all", "function () { for (;;) try { for (;;); } catch (e) {} }"],
    ["a regular expression", "function () { return /^(a+)+$/.test('a'.repeat(60) + 'b'); }"],
    ["a loop while it is compiled", "(function () { for (;;); })()"],
  ])("%s exceeds the time limit, and the next call succeeds", async (_, source) => {
    await expect(filter(source, { timeoutMs })).rejects.toMatchObject({
      error: "os_process_error",
      reason: "OS process timed out.",
    });
    expect(await filter("function (doc) { return doc.n > 1; }")).toEqual([false, true]);
  });

  test.each([
    [
      "grows a list",
      "function () { var a = []; for (;;) a.push(new Array(1000).join('x') + a.length); }",
    ],
    ["doubles a string", "function () { var s = 'x'; for (;;) s += s; }"],
    ["fills an array", "function () { return new Uint8Array(1e9).length; }"],
  ])("code that %s exceeds the memory limit, and the next call succeeds", async (_, source) => {
    await expect(filter(source)).rejects.toMatchObject({ code: "STORE_FUNCTION_FAILED" });
    expect(await filter("function (doc) { return doc.n > 1; }")).toEqual([false, true]);
  });

  test("a function whose memory has grown can be called again", async () => {
    const call = callOf("function () { return new Uint8Array(4e7).length > 0; }");
    for (let count = 0; count < 3; count++) {
      expect(await pool.call({ ...call, kind: "filter" })).toEqual([true, true]);
    }
  });

  test("the time limit applies to each run of a call, rather than to the whole call", async () => {
    const source =
      "function () { var end = Date.now() + 60; while (Date.now() < end); return true; }";
    const runs = ["[1]", "[2]", "[3]"];
    expect(await filter(source, { timeoutMs: 150, runs })).toEqual([true, true, true]);
  });

  test("a function in an endless loop does not block others", async () => {
    const beside = new SandboxPool(createSystemRuntime({ event: () => {} }));
    const call = (source: string) =>
      beside.call({ ...callOf(source, { timeoutMs: 3_600_000 }), kind: "filter" });
    let isOver = false;
    const looping = call("function () { for (;;); }").catch(() => {
      isOver = true;
    });
    expect(await call("function () { return true; }")).toEqual([true, true]);
    expect(isOver).toBe(false);
    await beside.close();
    await looping;
  });
});

test("code in the sandbox has no access to anything outside", async () => {
  const names = [
    "process",
    "fetch",
    "XMLHttpRequest",
    "setTimeout",
    "print",
    "std",
    "os",
    "WebAssembly",
  ];
  const source = `function () { return ${names.map((name) => `typeof ${name} === "undefined"`).join(" && ")}; }`;
  expect(await filter(source)).toEqual([true, true]);
});

test("a view used as a filter accepts the documents for which it emits rows", async () => {
  const call = { ...callOf(""), kind: "view", path: ["views", "v", "map"], shared: "[]" } as const;
  expect(await pool.call(call)).toEqual([false, true]);
});

test("validation reports the error that was thrown for each document", async () => {
  const code = codeOf({
    validate_doc_update: `function (newDoc, oldDoc, userCtx, secObj) {
      if (newDoc === 0) return;
      if (newDoc === 1) throw { forbidden: "no" };
      if (newDoc === 2) throw { unauthorized: { a: userCtx.name } };
      if (newDoc === 3) throw { other: secObj };
      if (newDoc === 4) throw new TypeError("t");
      throw "text";
    }`,
  });
  const call = { codeId: "vdu", code, kind: "validate", path: ["validate_doc_update"] } as const;
  const runs = [0, 1, 2, 3, 4, 5].map((n) => `[${n},null]`);
  const results = await pool.call({ ...call, runs, shared: '[{"name":"n"},{}]', timeoutMs: 5_000 });
  expect(results).toEqual([
    null,
    { error: "forbidden", reason: "no" },
    { error: "unauthorized", reason: '{"a":"n"}' },
    { error: "unknown_error", reason: "{}" },
    { error: "TypeError", reason: "t" },
    { error: "unknown_error", reason: "text" },
  ]);
});

test("messages logged by a function are emitted as events", async () => {
  await filter("function (doc) { log('n is ' + doc.n); log({ a: 1 }); log(new Error('e')); }", {
    runs: ['[{"n":7}]'],
  });
  const logged = events
    .filter(({ name }) => name === "design.logged")
    .map(({ message }) => message);
  expect(logged).toEqual(["n is 7", '{"a":1}', '{"error":"Error","message":"e"}']);
});

test("state that one design document leaves behind is invisible to other design documents", async () => {
  await filter("function () { globalThis.secret = 1; Array.prototype.evil = 1; return true; }");
  const source = "function () { return typeof secret === 'undefined' && [].evil === undefined; }";
  expect(await filter(source)).toEqual([true, true]);
});

describe("a long argument", () => {
  /**
   * Text with characters of one to four bytes each, so that some characters are split between
   * chunks.
   */
  const LONG = "a\u00e9\u20ac\u{1f600}".repeat(40_000);

  /**
   * Evaluates `expression`. Its variables `doc`, `old` and `this` are parsed from `texts`, in this
   * order.
   */
  async function shown(expression: string, ...texts: readonly string[]): Promise<unknown> {
    const filter = `function (doc, old) { throw { forbidden: JSON.stringify(${expression}) }; }`;
    const code = codeOf({ lib: { m: "exports.n = 7;" }, long: LONG, validate_doc_update: filter });
    // Splits a text into two chunks.
    const cut = (text: string): LongText => {
      const bytes = utf8Encode(text);
      return [bytes.subarray(0, 5), bytes.subarray(5)];
    };
    const call = { kind: "validate", path: ["validate_doc_update"], shared: "[]" } as const;
    const runs = [texts.map(cut)];
    const codeId = String(codeCount++);
    const [answer] = await pool.call({ ...call, codeId, code, runs, timeoutMs: 60_000 });
    return JSON.parse(answer?.reason ?? "null");
  }

  test("is passed with all its members, in the order of the JSON text", async () => {
    const text = JSON.stringify({ first: 1, long: LONG, list: [1, { a: LONG }], last: "x" });
    expect(await shown("Object.keys(doc)", text)).toEqual(["first", "long", "list", "last"]);
    const sum = "var sum = 0; for (var i = 0; i < text.length; i++) sum += i * text.charCodeAt(i)";
    const expression = `(function (text) { ${sum}; return [text.length, sum % 1e9]; })(JSON.stringify(doc))`;
    let expected = 0;
    for (let at = 0; at < text.length; at++) expected += at * text.charCodeAt(at);
    expect(await shown(expression, text)).toEqual([text.length, expected % 1e9]);
  });

  test("has only own properties, and of duplicate members only the last value", async () => {
    const list = JSON.stringify(Array(30_000).fill("abc"));
    const text = `{"a":${list},"b":1,"a":2,"b":${list},"__proto__":${list}}`;
    expect(
      await shown(
        "[doc.a, doc.b.length, doc.b === doc.b, Object.keys(doc), Object.getPrototypeOf(doc) === Object.prototype]",
        text,
      ),
    ).toEqual([2, 30_000, true, ["a", "b", "__proto__"], true]);
    const changed = "(doc.b = 5, delete doc.a, [Object.assign({}, doc).b, 'a' in doc])";
    expect(await shown(changed, text)).toEqual([5, false]);
    expect(await shown("(Object.freeze(doc), doc.b = 5, doc.b.length)", text)).toBe(30_000);
  });

  test("may follow a short argument, and may be a list", async () => {
    const list = JSON.stringify(Array(30_000).fill("abc"));
    expect(await shown("[doc.length, old]", list, "null")).toEqual([30_000, null]);
    expect(await shown("[doc.x, old.y.length]", '{"x":1}', `{"y":${list}}`)).toEqual([1, 30_000]);
    expect(await shown("doc.n", `{${'"a":1,'.repeat(30_000)}"n":3}`)).toBe(3);
  });

  test("may be a design document", async () => {
    expect(await shown("[this.long.length, require('lib/m').n]", "1")).toEqual([LONG.length, 7]);
  });
});

describe("a call sees no state of an earlier call", () => {
  const run = (call: SandboxCall, ...runs: string[]): Promise<boolean[]> =>
    pool.call({ ...call, kind: "filter", runs });

  test.each([
    ["a global", "var seen = typeof kept !== 'undefined'; kept = doc; return seen;"],
    [
      "a property of the global object",
      "var seen = globalThis.kept; globalThis.kept = doc; return seen;",
    ],
    ["a prototype", "var seen = ({}).kept; Object.prototype.kept = doc; return seen;"],
    ["a replaced function", "var seen = JSON.parse === toJSON; JSON.parse = toJSON; return seen;"],
    ["a module", "var m = require('lib/state'); var seen = m.kept; m.kept = doc; return seen;"],
    ["a closure of a module", "return require('lib/state').next() > 1;"],
    ["a closure around the function", "return ++count > 1;"],
    [
      "a property of the function",
      "var f = arguments.callee, seen = f.kept; f.kept = doc; return seen;",
    ],
    ["the design document", "var seen = this.kept; this.kept = doc; return seen;"],
    [
      "a symbol of the registry",
      "var s = Symbol.for('a'), seen = globalThis[s]; globalThis[s] = doc; return seen;",
    ],
    [
      "an exception",
      "if (globalThis.kept) return true; globalThis.kept = doc; throw new Error('a');",
    ],
  ])("%s", async (_, body) => {
    const source = `(function () { var count = 0; return function (doc) { ${body} }; })()`;
    const lib = { state: "var n = 0; exports.next = function () { return ++n; };" };
    const code = codeOf({ lib, filters: { f: source } });
    const call = callOf("", { code });
    // Several calls, because modules are precompiled only after the first call that needs them.
    for (let count = 0; count < 4; count++) {
      const answer = await run(call, '[{"n":1}]').catch((error: { error: string }) => error.error);
      expect(answer).toEqual(body.includes("throw") ? "Error" : [false]);
    }
  });

  test("a call that exceeded its time limit leaves no state", async () => {
    const source = "function (doc) { if (globalThis.kept) return true; kept = doc; for (;;); }";
    const call = callOf(source, { timeoutMs: 50 });
    for (let count = 0; count < 2; count++) {
      await expect(run(call, '[{"n":1}]')).rejects.toMatchObject({
        reason: "OS process timed out.",
      });
    }
  });

  test("runs of the same call share globals, but have different random numbers", async () => {
    const call = callOf(
      "function (doc) { kept = (globalThis.kept || 0) + 1; return kept === doc; }",
    );
    expect(await run(call, "[1]", "[2]")).toEqual([true, true]);
    const source = "function (doc) { throw { forbidden: String(Math.random()) }; }";
    const code = codeOf({ validate_doc_update: source });
    const drawn = new Set<string>();
    for (let count = 0; count < 3; count++) {
      const [answer] = await pool.call({
        ...callOf("", { code, codeId: "random", path: ["validate_doc_update"], runs: ["[1]"] }),
        kind: "validate",
      });
      drawn.add(answer?.reason ?? "");
    }
    expect(drawn.size).toBe(3);
  });
});

describe("selectors", () => {
  const matches = (selector: object, document: object, timeoutMs = 60_000): Promise<boolean> =>
    pool.matches({
      selector: JSON.stringify(selector),
      document: [utf8Encode(JSON.stringify(document))],
      timeoutMs,
      share: { user: "ann", database: "films" },
    });

  test("selectors are matched against documents", async () => {
    const answers = [1, 2, 3].map((n) => matches({ n: { $gt: 1 } }, { n }));
    expect(await Promise.all([...answers, matches({ n: 1 }, { n: 1 })])).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  test("are aborted if they do not end, while others continue", async () => {
    const list = Array.from({ length: 200_000 }, () => [0]);
    const endless = { list: { $all: [...Array.from({ length: 4_000 }, () => [0]), [1]] } };
    const never = matches(endless, { list: [...list, [1]].reverse() }, 1);
    const other = matches({ n: 1 }, { n: 1 });
    await expect(never).rejects.toMatchObject({
      error: "os_process_error",
      reason: "The selector took more than 1 ms for one document.",
    });
    expect(await other).toBe(true);
  });
});
