/** `tandem replicate` and `tandem verify` work without a server, and have meaningful exit codes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deferred } from "../../support/deferred.ts";
import { type HttpProxy, openHttpProxy } from "../../support/faults/http-proxy.ts";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";
import { MAIN, tandem } from "../../support/tandem-command.ts";

const processes = new Processes();
const films = sampleLines("films").slice(0, 200);
let server: TandemNode;
let proxy: HttpProxy;

beforeAll(async () => {
  server = await processes.openHere();
  proxy = await openHttpProxy(server.url);
  await load(server, "films", films);
});
afterAll(async () => {
  await proxy.close();
  await processes.close();
});

/** Runs a command to its end. `text` contains both outputs. */
async function run(...flags: string[]) {
  const { code, output, errors } = await tandem(flags);
  return { code, output, text: output + errors };
}

/** Starts a command in a separate process, to which a test can send signals. */
function start(...flags: string[]) {
  const child = spawn(process.execPath, [MAIN, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  child.stderr.on("data", (chunk) => (text += chunk));
  const ended = once(child, "exit").then(([code]) => ({ code, text }));
  return { child, ended };
}

test("verify reports documents that changed or are missing in a copy, and verify --repair copies them", async () => {
  const source = `${server.url}/films`;
  const target = `${server.url}/films-copy`;
  const copied = await run("replicate", source, target, "--create-target");
  expect(copied).toMatchObject({ code: 0, text: expect.stringMatching(/200 documents.*MB\/s/) });
  expect(copied.output).toMatch(/^200 documents copied, 0 failed, \d+\.\d s\n$/);
  expect((await run("verify", source, target)).code).toBe(0);
  const one = JSON.parse(films[0] as string)._id;
  const path = `/films/${encodeURIComponent(one)}`;
  const { body } = await server.call("GET", path);
  await server.call("PUT", path, { ...body, changed: true });
  await server.call("PUT", "/films/new", {});
  const differing = await run("verify", source, target);
  expect(differing).toMatchObject({ code: 1, text: expect.stringContaining("2 differences") });
  expect(differing.text).toMatch(/^ {2}new 1-\w+ is not on the target$/m);
  const repaired = await run("verify", source, target, "--repair");
  expect(repaired).toMatchObject({ code: 0, text: expect.stringContaining("2 documents copied") });
});

test("the message about a missing target contains the option that creates it", async () => {
  const source = `${server.url}/films`;
  const copied = await run("replicate", source, `${server.url}/none`);
  expect(copied.code).toBe(1);
  expect(copied.text).toContain(
    `could not open ${server.url}/none/; use --create-target to create the target`,
  );
  const nothing = await run("replicate", `${server.url}/none`, source);
  expect(nothing.text).toContain(`could not open ${server.url}/none/\n`);
});

test("a copy reports the number of omitted documents", async () => {
  const docs = [{ _id: "small" }, { _id: "large", text: "x".repeat(100) }, { _id: "gone" }];
  await load(
    server,
    "partial",
    docs.map((document) => JSON.stringify(document)),
  );
  const { body } = await server.call("GET", "/partial/gone");
  await server.call("DELETE", `/partial/gone?rev=${body._rev}`);
  const limits = ["--skip-deleted", "--max-document-bytes", "50", "--max-attachment-bytes", "50"];
  const ends = [`${server.url}/partial`, `${server.url}/partial-copy`, "--create-target"];
  const { code, text } = await run("replicate", ...ends, ...limits);
  expect(text).toMatch(/^2 skipped as requested$/m);
  expect(code).toBe(0);
  expect((await server.call("GET", "/partial-copy")).body.doc_count).toBe(1);
});

test("a comparison reports conflicts, deletions and attachments, whichever side lacks them", async () => {
  const rev = (generation: number, letter: string) => `${generation}-${letter.repeat(32)}`;
  const write = async (database: string, docs: unknown[]) => {
    await server.call("PUT", `/${database}`);
    await server.call("POST", `/${database}/_bulk_docs`, { new_edits: false, docs });
  };
  const revisions = { start: 2, ids: ["b".repeat(32), "a".repeat(32)] };
  const flag = (data: string) => ({
    _id: "flag",
    _rev: rev(1, "f"),
    _attachments: { "flag.png": { content_type: "image/png", data } },
  });
  const same = { _id: "same", _rev: rev(1, "a") };
  await write("one-side", [
    same,
    { _id: "conflict", _rev: rev(1, "a") },
    { _id: "conflict", _rev: rev(1, "c") },
    { _id: "gone", _rev: rev(2, "b"), _revisions: revisions, _deleted: true },
    flag("AAEC"),
  ]);
  await write("other-side", [
    same,
    { _id: "conflict", _rev: rev(1, "a") },
    { _id: "gone", _rev: rev(1, "a") },
    { _id: "only", _rev: rev(1, "a") },
    flag("AAED"),
  ]);
  const flags = [`${server.url}/one-side`, `${server.url}/other-side`, "--json"];
  const { code, text } = await run("verify", ...flags);
  const lines = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const named = lines.slice(0, -1).map(({ difference }) => difference);
  expect(code).toBe(1);
  expect(named.toSorted((left, right) => (left.id < right.id ? -1 : 1))).toEqual([
    { id: "conflict", revision: rev(1, "c"), reason: "is not on the target" },
    {
      id: "flag",
      revision: rev(1, "f"),
      attachment: "flag.png",
      reason: expect.stringMatching(/^has the digest md5-.*, but md5-.* on the target$/),
    },
    { id: "gone", revision: rev(2, "b"), reason: "is not on the target" },
    { id: "only", revision: rev(1, "a"), reason: "is only on the target" },
  ]);
  expect(lines.at(-1)).toEqual({
    comparison: { documentCount: 4, leafCount: 5, attachmentCount: 1, differenceCount: 4 },
  });
});

test("attachments of equal length are compared by their bytes if one side stores them compressed", async () => {
  const names = ["zipped", "equal", "other"];
  for (const name of names) await server.call("PUT", `/${name}-texts`);
  const put = (name: string, text: string, type: string) =>
    server.call("POST", `/${name}-texts/_bulk_docs`, {
      new_edits: false,
      docs: [
        {
          _id: "text",
          _rev: `1-${"d".repeat(32)}`,
          _attachments: {
            "a.bin": {
              content_type: type,
              data: Buffer.from(text).toString("base64"),
            },
          },
        },
      ],
    });
  const text = "some text, ".repeat(50);
  // The server compresses attachments of the configured types.
  await put("zipped", text, "text/plain");
  await put("equal", text, "application/octet-stream");
  await put("other", text.toUpperCase(), "application/octet-stream");
  const digests = await Promise.all(
    names.map(async (name) => {
      const { body } = await server.call("GET", `/${name}-texts/text?att_encoding_info=true`);
      const { digest, encoding, length } = body._attachments["a.bin"];
      return { digest, encoding, length };
    }),
  );
  // The three digests differ, although two of the documents have the same bytes. All lengths are
  // equal.
  expect(new Set(digests.map(({ digest }) => digest)).size).toBe(3);
  expect(digests.map(({ encoding }) => encoding)).toEqual(["gzip", undefined, undefined]);
  expect(new Set(digests.map(({ length }) => length))).toEqual(new Set([text.length]));
  const verify = async (here: string, there: string) => {
    const ends = [here, there].map((name) => `${server.url}/${name}-texts`);
    const { code, text: shown } = await run("verify", ...ends, "--json");
    const lines = shown
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    return [code, ...lines.slice(0, -1).map(({ difference }) => difference.attachment)];
  };
  expect(await verify("zipped", "equal")).toEqual([0]);
  expect(await verify("equal", "zipped")).toEqual([0]);
  expect(await verify("zipped", "other")).toEqual([1, "a.bin"]);
  expect(await verify("other", "zipped")).toEqual([1, "a.bin"]);
});

test.each([[[]], [["--json"]]] as const)(
  "a copy with failed documents does not count as successful, with the flags %j",
  async (flags) => {
    const name = `refused${flags.length}`;
    await load(server, name, ['{"_id":"good"}', '{"_id":"bad"}']);
    const refuse = 'function (doc) { if (doc._id === "bad") throw {forbidden: "closed"}; }';
    await server.call("PUT", `/${name}-guarded`);
    await server.call("PUT", `/${name}-guarded/_design/guard`, { validate_doc_update: refuse });
    const ends = [`${server.url}/${name}`, `${server.url}/${name}-guarded`];
    const { code, text } = await run("replicate", ...ends, ...flags);
    expect(code).toBe(1);
    if (flags.length === 0) {
      expect(text).toMatch(/bad 1-\w+: forbidden: closed/);
      expect(text).toMatch(/^1 document copied, 1 failed, \d+\.\d s$/m);
    } else {
      expect(JSON.parse(text)).toMatchObject({
        ok: false,
        failures: [{ id: "bad", error: "forbidden", reason: "closed" }],
        history: [{ docs_written: 1, doc_write_failures: 1 }],
      });
    }
    const whole = await run("replicate", ends[0] as string, `${ends[1]}-copy`, ...flags);
    expect(whole.code).toBe(1);
    const all = [ends[0] as string, `${server.url}/${name}-all`, "--create-target", ...flags];
    expect((await run("replicate", ...all)).code).toBe(0);
  },
);

test("an attachment that differs within the same revision is reported as not repaired, and is repaired after a purge", async () => {
  const doc = (data: string) => ({
    _id: "flag",
    _rev: `1-${"f".repeat(32)}`,
    _attachments: { "flag.png": { content_type: "image/png", data } },
  });
  for (const [database, data] of [
    ["flags-here", "AAEC"],
    ["flags-there", "AAED"],
  ] as const) {
    await server.call("PUT", `/${database}`);
    const docs = [doc(data)];
    await server.call("POST", `/${database}/_bulk_docs`, { new_edits: false, docs });
  }
  const repair = () =>
    run("verify", `${server.url}/flags-here`, `${server.url}/flags-there`, "--repair");
  const first = await repair();
  expect([first.code, first.text]).toEqual([
    1,
    expect.stringContaining(
      "1 attachment differs and cannot be repaired: both sides have this revision",
    ),
  ]);
  await server.call("POST", "/flags-there/_purge", { flag: [doc("")._rev] });
  expect(await repair()).toMatchObject({
    code: 0,
    text: expect.stringContaining("no differences"),
  });
});

test("a repair counts the documents that the target accepted, and lists the refused documents with reasons", async () => {
  await load(server, "guarded-source", ['{"_id":"good"}', '{"_id":"b\\u001bad"}']);
  const refuse =
    'function (doc) { if (doc._id !== "good") throw {forbidden: "closed \u001b[31m"}; }';
  await server.call("PUT", "/guarded");
  await server.call("PUT", "/guarded/_design/guard", { validate_doc_update: refuse });
  const ends = [`${server.url}/guarded-source`, `${server.url}/guarded`];
  const { code, text } = await run("verify", ...ends, "--repair");
  expect(code).toBe(1);
  expect(text).toMatch(
    /^1 document copied again\n1 revision failed:\n {2}b\ufffdad 1-\w+: forbidden: closed \ufffd\[31m$/m,
  );
  expect(text).toMatch(/^ {2}b\ufffdad 1-\w+ is not on the target$/m);
  expect(text).not.toContain("\u001b");
});

test("failed documents of a run are retried by later runs until they arrive", async () => {
  const source = `${server.url}/remembered`;
  const target = `${proxy.url}/remembered-copy`;
  await load(server, "remembered", ['{"_id":"good"}', '{"_id":"bad"}']);
  proxy.intercept(async (request, forward) => {
    if (!request.path.endsWith("/_bulk_docs")) return forward(request);
    const body = JSON.parse(request.body.toString("utf8"));
    const docs = body.docs.filter(({ _id: id }: { _id: string }) => id !== "bad");
    await forward({ ...request, body: Buffer.from(JSON.stringify({ ...body, docs })) });
    if (docs.length === body.docs.length) return { status: 201, body: "[]" };
    return { status: 201, body: '[{"id":"bad","error":"forbidden","reason":"closed"}]' };
  });
  const refused = { code: 1, text: expect.stringMatching(/bad 1-\w+: forbidden: closed/) };
  expect(await run("replicate", source, target, "--create-target")).toMatchObject(refused);
  expect(await run("replicate", source, target)).toMatchObject(refused);
  proxy.intercept((request, forward) => forward(request));
  expect((await run("replicate", source, target)).code).toBe(0);
  expect((await server.call("GET", "/remembered-copy/bad")).status).toBe(200);
});

test("an interrupted copy explains how to resume it, and can be resumed", async () => {
  const target = `${proxy.url}/films-late`;
  const released = deferred();
  proxy.intercept(async (request, forward) => {
    if (request.path.endsWith("/_bulk_docs")) await released.promise;
    return forward(request);
  });
  const first = start("replicate", `${server.url}/films`, target, "--create-target");
  await proxy.received(({ path }) => path === "/films-late/_bulk_docs");
  first.child.kill("SIGINT");
  expect(await first.ended).toMatchObject({
    code: 1,
    text: expect.stringContaining("run the same command again"),
  });
  released.resolve();
  expect((await run("replicate", `${server.url}/films`, target)).code).toBe(0);
});

test.each([["SIGINT"], ["SIGTERM"], ["SIGHUP"]] as const)(
  "a copy interrupted by %s is not reported as a success in JSON",
  async (signal) => {
    const released = deferred();
    proxy.intercept(async (request, forward) => {
      if (request.path.endsWith("/_bulk_docs")) await released.promise;
      return forward(request);
    });
    const name = `films-${signal.toLowerCase()}`;
    const target = `${proxy.url}/${name}`;
    const copy = start("replicate", `${server.url}/films`, target, "--create-target", "--json");
    await proxy.received(({ path }) => path === `/${name}/_bulk_docs`);
    copy.child.kill(signal);
    const { code, text } = await copy.ended;
    released.resolve();
    expect([code, JSON.parse(text)]).toEqual([
      1,
      { ok: false, error: "stopped", reason: "it was interrupted", failures: [] },
    ]);
  },
);

describe("document ids can be read from a file", () => {
  const file = join(processes.directory(), "ids");
  const copy = (text: string, target: string) => {
    writeFileSync(file, text);
    const ends = [`${server.url}/lettered`, `${server.url}/${target}`, "--create-target"];
    return run("replicate", ...ends, "--doc-ids", file);
  };
  beforeAll(() => load(server, "lettered", ['{"_id":"a"}', '{"_id":"b"}', '{"_id":"c"}']));

  test.each([
    ["lines", "a\r\nb\n"],
    ["lines-with-mark", "\ufeffa\nb\n"],
    ["array", '["a", "b"]'],
    ["array-with-mark", '\ufeff["a", "b"]'],
  ])("%s", async (name, text) => {
    expect((await copy(text, name)).code).toBe(0);
    const { body } = await server.call("GET", `/${name}/_all_docs`);
    expect(body.rows.map(({ id }: { id: string }) => id)).toEqual(["a", "b"]);
  });

  test.each([
    ["", "the file contains no document ids"],
    ["\n\n", "the file contains no document ids"],
    ["[]", "the file contains no document ids"],
    ['["a", ', "expected a JSON array of ids, or one id per line"],
  ])("%j is refused", async (text, reason) => {
    expect(await copy(text, "none")).toMatchObject({
      code: 2,
      text: `tandem: --doc-ids ${file}: ${reason}\n`,
    });
  });
});

test("passwords are never printed", async () => {
  const source = "http://user:word-4711@127.0.0.1:1/films";
  const { code, text } = await run("replicate", source, `${server.url}/none`);
  expect(code).toBe(1);
  expect(text).not.toContain("4711");
});
