/** Computations of the dashboard. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseJson, printJson } from "../../src/base/index.ts";
import {
  DOCUMENT_OPTIONS,
  JOB_FILTERS,
  JOB_ORDERS,
  type Job,
  type JobEvent,
  type JobRun,
} from "../../src/contract/index.ts";
import { BUDGET_LIMITS } from "../../src/dashboard/api/budget.ts";
import { filterOf } from "../../src/dashboard/api/failing-filter.ts";
import * as limits from "../../src/dashboard/api/limits.ts";
import { skipWithin } from "../../src/dashboard/api/pages.ts";
import { budgetOf, budgetText } from "../../src/dashboard/base/budget-text.ts";
import { resultWords } from "../../src/dashboard/base/command-words.ts";
import { entryOf, LOG_BEGIN } from "../../src/dashboard/base/event-log.ts";
import { fieldNamed } from "../../src/dashboard/base/field-labels.ts";
import {
  formatBytes,
  formatDistance,
  formatDuration,
  visibleText,
} from "../../src/dashboard/base/format.ts";
import { isReached, lastSuccess } from "../../src/dashboard/base/job-figures.ts";
import {
  FLAG_FILTERS,
  JOB_ORDERS as SHOWN_ORDERS,
  TEXT_FILTERS,
} from "../../src/dashboard/base/job-filters.ts";
import { lineOf, linesAfter } from "../../src/dashboard/base/job-line.ts";
import { visibleJson } from "../../src/dashboard/base/json.ts";
import { masked } from "../../src/dashboard/base/masked.ts";
import { perSecond } from "../../src/dashboard/base/rates.ts";
import {
  cloneOf,
  curlCommand,
  draftOf,
  EMPTY_FORM,
  FieldError,
  type FormFields,
  fieldsOf,
  idFor,
  NO_ENDPOINT,
  replicationOf,
  sequenceOf,
  withTrimmedName,
} from "../../src/dashboard/base/replication-form.ts";
import { NEW_RULE, ruleFieldsOf, ruleOf } from "../../src/dashboard/base/rule-fields.ts";
import { lagsOf, seriesOf } from "../../src/dashboard/base/run-series.ts";
import { SCHEDULE_KINDS, SCHEDULES } from "../../src/dashboard/base/schedules.ts";
import { partOfSlots } from "../../src/dashboard/base/shares.ts";
import { steadyRows } from "../../src/dashboard/base/steady-rows.ts";
import { timelineOf } from "../../src/dashboard/base/timeline.ts";
import { linkTo, parseView } from "../../src/dashboard/base/view.ts";
import { SHARES_MAX } from "../../src/jobs/index.ts";
import { VERSIONSTAMP_BYTES } from "../../src/kv/index.ts";
import * as replicator from "../../src/replicator/index.ts";
import { budgetView, parseBudget, parseReplication } from "../../src/replicator/index.ts";

describe("figures and texts", () => {
  test.each([
    [0, "0 s"],
    [59.9, "59 s"],
    [65, "1 min 5 s"],
    [900, "15 min"],
    [11_100, "3 h 5 min"],
    [187_200, "2 d 4 h"],
  ])("%d seconds are %s", (seconds, text) => {
    expect(formatDuration(seconds)).toBe(text);
  });

  test("relative times are formatted for the past and the future", () => {
    const nowMs = Date.parse("2026-01-01T12:00:00Z");
    expect(formatDistance("2026-01-01T11:58:30Z", nowMs)).toBe("1 min ago");
    expect(formatDistance("2026-01-01T12:00:20Z", nowMs)).toBe("in 20 s");
    expect(formatDistance("2026-01-01T12:00:00Z", nowMs)).toBe("now");
  });

  test("bytes are formatted with decimal units", () => {
    expect([0, 999, 4_200, 1e15].map(formatBytes)).toEqual(["0 B", "999 B", "4.2 kB", "1,000 TB"]);
  });

  test("invisible and bidirectional characters are shown as code points", () => {
    expect(visibleText("a\u202egpj.exe\n\u200b")).toBe("a⟨U+202E⟩gpj.exe⟨U+000A⟩⟨U+200B⟩");
    expect(visibleText("Größe 文")).toBe("Größe 文");
    expect(visibleText("\u00ad\u180e\u3164\ufff9\u{e0041}\u115f")).toBe(
      "⟨U+00AD⟩⟨U+180E⟩⟨U+3164⟩⟨U+FFF9⟩⟨U+E0041⟩⟨U+115F⟩",
    );
  });

  test("JSON is shown with escapes for invisible and bidirectional characters, and keeps its value", () => {
    const value = { "a\u202eb": ["\u{e0041}\u00ad", "Größe\n文"] };
    const shown = visibleJson(value);
    expect(shown).toContain(String.raw`"a\u202eb"`);
    expect(shown).toContain(String.raw`\udb40\udc41\u00ad`);
    expect(shown).not.toMatch(/\p{Cf}/u);
    expect(JSON.parse(shown)).toEqual(value);
  });

  test("JSON is shown with its original numbers and order of members", () => {
    const text = `{"b": [1.0, 1e3, -0, 9007199254740993, -1e999], "1": {}, "a": [], "0": null}`;
    const shown = visibleJson(parseJson(text));
    expect(shown.replace(/\s+/g, "")).toBe(text.replaceAll(" ", ""));
    const plain = { a: [1, { b: "c" }], d: {}, e: [], f: undefined };
    expect(visibleJson(plain)).toBe(JSON.stringify(plain, null, 2));
  });

  test.each([
    [0, 250, 0],
    [200, 250, 200],
    [200, 200, 100],
    [500, 101, 100],
    [100, 0, 0],
  ])("skipping %d of %d rows shows the page that begins at row %d", (skip, total, within) => {
    expect(skipWithin(skip, 100, total)).toBe(within);
  });
});

test("a URL identifies a view, even if ids contain special characters", () => {
  const name = "_replicator/a?b#c%/<d>&e=f";
  const view = { segments: ["jobs", name], query: { reason: "100% & more?", source: "a:1" } };
  expect(parseView(linkTo(view.segments, view.query))).toEqual(view);
  expect(parseView("#/jobs/%zz").segments).toEqual(["jobs", "%zz"]);
  expect(parseView("")).toEqual({ segments: [], query: {} });
});

test("the name of a group of failing jobs contains its error, its side, and its host, if any", () => {
  const named = (host: string) => filterOf({ class: "dns", side: "target", host });
  for (const [host, exactly] of [
    ["couch.example:5984", "couch.example:5984"],
    ["couch.example", "couch.example:"],
    ["[::1]", "[::1]:"],
  ] as const) {
    expect(named(host)).toEqual({ error: "dns", side: "target", host: exactly });
  }
  expect(filterOf({ class: "invalid", side: null, host: null })).toEqual({
    error: "invalid",
    side: "-",
    host: "-",
  });
});

test("a rate covers the elapsed part of the minute, and is unknown without a count or in the first seconds", () => {
  const minutes = [
    { seconds: 60, starts: null },
    { seconds: 60, starts: 30 },
    { seconds: 20, starts: 5 },
    { seconds: 2, starts: 1 },
  ];
  expect(perSecond(minutes, ({ starts }) => starts)).toEqual([null, 0.5, 0.25, null]);
});

test("the rate of a run is constant over the run, and absent if the run was lost", () => {
  const run = (from: number, to: number, written: number | null) =>
    ({
      start: new Date(from * 1000).toISOString(),
      end: new Date(to * 1000).toISOString(),
      docs_written: written,
      bytes: written,
    }) as JobRun;
  const { times, docsPerSec } = seriesOf([run(30, 30, 5), run(20, 25, null), run(10, 20, 40)]);
  expect(docsPerSec).toEqual([4, 4, null, null, null, null, 5, 5]);
  expect(times.map(Math.round)).toEqual([10, 20, 20, 20, 25, 30, 30, 31]);
  expect(times).toEqual(times.toSorted((left, right) => left - right));
});

test("the lag chart shows the lag at the end of each run, followed by the samples after the last run", () => {
  const run = (endSec: number, lagSec: number | null) => ({
    end: new Date(endSec * 1000).toISOString(),
    lag_sec: lagSec,
  });
  const seen = [
    { timeSec: 29, lagSec: 1 },
    { timeSec: 31, lagSec: 2 },
  ];
  expect(lagsOf([run(30, 0), run(20, null), run(10, 7)], seen)).toEqual([
    { timeSec: 10, lagSec: 7 },
    { timeSec: 20, lagSec: null },
    { timeSec: 30, lagSec: 0 },
    { timeSec: 31, lagSec: 2 },
  ]);
});

test("a group with half of the active shares gets half of the slots", () => {
  const group = (name: string, shares: number, running: number) => ({
    name,
    shares,
    jobs: { running, pending: 0, ended: 9 },
  });
  const groups = [group("a", 100, 2), group("b", 300, 1), group("c", 600, 0)];
  expect(["a", "b", "c"].map((name) => partOfSlots(name, groups))).toEqual([0.25, 0.75, 0]);
});

test("rows under the pointer keep their places and show current values; new rows are added at the end", () => {
  const row = (key: string, count: number) => ({ key, count });
  const before = [row("a", 1), row("b", 2), row("c", 3)];
  const now = [row("new", 9), row("c", 8), row("a", 7)];
  expect(steadyRows(before, now, ({ key }) => key)).toEqual([
    row("a", 7),
    row("b", 2),
    row("c", 8),
    row("new", 9),
  ]);
});

test("the timeline combines runs, decisions and the creation of a job, newest first", () => {
  const job = {
    control: [
      { action: "pause", user: "root", timestamp: "2026-01-01T00:00:04Z", why: "a new disk" },
      { action: "retry", user: null, timestamp: "2026-01-01T00:00:02Z", why: null },
    ],
    history: [
      { type: "started", timestamp: "2026-01-01T00:00:05Z" },
      { type: "crashed", timestamp: "2026-01-01T00:00:03Z", reason: "again" },
      { type: "added", timestamp: "2026-01-01T00:00:01Z" },
    ],
  } as unknown as Job;
  const run = { end: "2026-01-01T00:00:03Z", cause: "crashed", reason: "no route" } as JobRun;
  expect(timelineOf(job, [run]).map(({ title, detail }) => [title, detail])).toEqual([
    ["Run started, in progress", null],
    ["pause", "by root: a new disk"],
    ["Run crashed", "no route"],
    ["retry", "by an anonymous administrator"],
    ["Added", null],
  ]);
});

/** Builds the document from the fields of a form. Throws the first validation error. */
function documentOf(fields: FormFields, original?: Readonly<Record<string, unknown>>) {
  const { document, errors } = replicationOf(fields, original);
  for (const error of errors.values()) throw error;
  return document;
}

describe("the form of a replication", () => {
  const document = {
    _id: "copy",
    _rev: "1-a",
    owner: "root",
    comment: "kept",
    source: { url: "https://couch.example/a", auth: { basic: { username: "a", password: "s3" } } },
    target: "https://ann:s4@couch.example/b",
    tags: { team: "billing", env: "prod" },
    run_on: ["site:berlin"],
    after: ["first", "users/films, all"],
    continuous: true,
    selector: { type: "film" },
    since_seq: "5-xyz",
    winning_revs_only: true,
    deleted: "skip",
    documents: { max_bytes: 1_000_000 },
    attachments: { max_bytes: 0 },
    schedule: "between 22:00 and 06:00 Europe/Berlin",
    worker_batch_size: 100,
    use_bulk_get: false,
    failure_policy: "hold",
  };

  test("turns the fields of a document back into the same document", () => {
    expect(documentOf(fieldsOf(document, "_replicator", "copy"), document)).toEqual(document);
  });

  test("omits the outcome of the replication; a clone also omits the document's id, revision and owner", () => {
    const ended = {
      ...document,
      _attachments: { note: { stub: true } },
      _replication_state: "completed",
      _replication_state_time: "2026-01-01T00:00:00Z",
      _replication_state_reason: "none",
      _replication_stats: { docs_written: 7 },
    };
    const { _attachments } = ended;
    const fields = fieldsOf(ended, "_replicator", "copy");
    expect(documentOf(fields, ended)).toEqual({ ...document, _attachments });
    const { _id, _rev, owner: _owner, ...copied } = document;
    const clone = cloneOf(ended);
    expect(documentOf(fieldsOf(clone, "_replicator", "other"), clone)).toEqual(copied);
  });

  test("keeps unedited members unchanged, whatever their values", () => {
    const odd = {
      source: { url: "https://couch.example/a" },
      target: "copy",
      continuous: false,
      doc_ids: ["a\nb", "c", ""],
      since_seq: [5, "5-xyz"],
      documents: { max_bytes: 7, other: true },
      query_params: { type: "film" },
      checkpoint_interval: "500",
      after: "first",
    };
    const fields = fieldsOf(odd, "_replicator", "odd");
    expect(fields).toMatchObject({ after: "first" });
    expect(documentOf(fields, odd)).toEqual(odd);
    const ids = fields.selected.replace('"c"', '"d"');
    const changed = { ...fields, selected: ids, documentBytesMax: "8", sinceSequence: "6" };
    expect(documentOf(changed, odd)).toEqual({
      ...odd,
      doc_ids: ["a\nb", "d", ""],
      since_seq: 6,
      documents: { max_bytes: 8, other: true },
    });
    const zero = { ...odd, since_seq: "0" };
    expect(documentOf(fieldsOf(zero, "_replicator", "odd"), zero)).toEqual(zero);
    const all = { ...fields, selection: "all", documentBytesMax: "" } as const;
    const { doc_ids: _ids, ...rest } = odd;
    expect(documentOf(all, odd)).toEqual({ ...rest, documents: { other: true } });
  });

  test.each([["a"], [[1, 2]], [["a", 2]], [{ a: "b" }], [null]])(
    "keeps doc_ids unchanged if they are not a list of strings: %j",
    (ids) => {
      const document = { source: "https://couch.example/a", target: "copy", doc_ids: ids };
      const fields = fieldsOf(document, "_replicator", "odd");
      expect(documentOf(fields, document)).toEqual(document);
    },
  );

  test("does not reformat numbers, and accepts update sequences of every type", () => {
    expect([' [5,"abc"]', "0", "5-xyz", "007"].map(sequenceOf)).toEqual([
      [5, "abc"],
      0,
      "5-xyz",
      "007",
    ]);
    const large = "12345678901234567890";
    expect(printJson(sequenceOf(large))).toBe(large);
    const text = `{"a": ${large}, "1": [1.0, 1e3, -0]}`;
    const fields = { ...fieldsOf(document, "_replicator", "copy"), selected: text };
    expect(printJson(documentOf(fields, document).selector)).toBe(text.replaceAll(" ", ""));
  });

  test("removes the masked login from a URL when the login is replaced or removed", () => {
    const shown = { ...document, target: "https://ann:*****@couch.example/b" };
    const fields = fieldsOf(shown, "_replicator", "copy");
    expect(fields.target.login).toBe("kept");
    const withLogin = (login: "none" | "basic", address = fields.target.address) =>
      documentOf(
        { ...fields, target: { ...NO_ENDPOINT, address, login, username: "bob", secret: "new" } },
        shown,
      ).target;
    expect(withLogin("none")).toBe("https://couch.example/b");
    expect(withLogin("none", "https://bob:new@couch.example/b")).toBe(
      "https://bob:new@couch.example/b",
    );
    expect(withLogin("basic")).toEqual({
      url: "https://couch.example/b",
      auth: { basic: { username: "bob", password: "new" } },
    });
    expect(() => withLogin("none", "https://couch.example/b?token=*****")).toThrow(
      "enter the secret again",
    );
  });

  test.each([
    ["_replicator", true],
    ["tenant/a/_replicator", true],
    ["src2", false],
    ["my_replicator", false],
  ])("accepts the database %s: %s", (database, isMade) => {
    const make = () => documentOf({ ...fieldsOf(document, database, "copy") }, document);
    if (isMade) expect(make()).toEqual(document);
    else expect(make).toThrow("Expected _replicator");
  });

  test("trims spaces around a database name", () => {
    const fields = withTrimmedName({ ...EMPTY_FORM, database: " _replicator", id: " a b " });
    expect(fields).toMatchObject({ database: "_replicator", id: "a b" });
  });

  test("creates documents that the replicator accepts", () => {
    const fields = {
      ...{ ...EMPTY_FORM, id: "films" },
      source: { ...NO_ENDPOINT, address: "https://a.example/x", login: "bearer", secret: "t" },
      target: { ...NO_ENDPOINT, address: "films" },
      tags: " team:billing, env:prod ",
      runOn: "site:berlin, ssd",
      after: " first, second \n\nusers/films\n",
      selection: "doc_ids",
      selected: "a\nb\n",
      options: Object.fromEntries(
        DOCUMENT_OPTIONS.map((option) => [option.name, String(option.default)]),
      ),
    } as const;
    const made = documentOf(fields);
    expect(made).toMatchObject({ doc_ids: ["a", "b"], weight: 100, use_checkpoints: true });
    expect(parseReplication(made)).toMatchObject({
      tags: { team: "billing", env: "prod" },
      runOn: ["site:berlin", "ssd"],
      after: ["first, second", "users/films"],
    });
  });

  test("creates endpoints with client credentials of OAuth, and keeps them in an edit", () => {
    const client = {
      ...NO_ENDPOINT,
      address: "https://a.example/x",
      login: "oauth2",
      secret: "s3",
      tokenUrl: "https://login.example/token",
      clientId: "copier",
    } as const;
    const copy = { ...EMPTY_FORM, id: "films", target: { ...NO_ENDPOINT, address: "films" } };
    const made = documentOf({ ...copy, source: client });
    const oauth2 = {
      token_url: "https://login.example/token",
      client_id: "copier",
      client_secret: "s3",
    };
    expect(made.source).toEqual({ url: "https://a.example/x", auth: { oauth2 } });
    expect(() => parseReplication(made)).not.toThrow();
    const scoped = documentOf({ ...copy, source: { ...client, scope: "read write" } });
    expect(scoped.source).toMatchObject({ auth: { oauth2: { scope: "read write" } } });
    const fields = fieldsOf(scoped, "_replicator", "films");
    expect(fields.source).toMatchObject({ login: "kept", secret: "" });
    const moved = { ...fields, source: { ...fields.source, address: "https://b.example/x" } };
    expect(documentOf(moved, scoped).source).toEqual({
      ...(scoped.source as object),
      url: "https://b.example/x",
    });
    for (const [member, field] of [
      ["tokenUrl", "token_url"],
      ["clientId", "client_id"],
    ]) {
      const lacking = { ...client, [member as string]: " " };
      expect([...replicationOf({ ...copy, source: lacking }).errors.keys()]).toEqual([
        `source.auth.oauth2.${field}`,
      ]);
    }
  });

  test.each([
    ["billing", "Expected tags as name:value, but found billing"],
    ["a:1, a:2", "Duplicate tag a"],
  ])("rejects the tags %s", (tags, message) => {
    expect(() =>
      documentOf({
        ...EMPTY_FORM,
        id: "a",
        source: { ...NO_ENDPOINT, address: "a" },
        target: { ...NO_ENDPOINT, address: "b" },
        tags,
      }),
    ).toThrow(new FieldError("tags", message));
  });

  test.each(SCHEDULE_KINDS.filter((kind) => kind !== "none"))(
    "offers a schedule of the form %s that the replicator accepts, and converts it back to fields",
    (kind) => {
      const schedule = SCHEDULES[kind].example("Europe/Berlin");
      const continuous = kind === "window";
      const made = { source: "films", target: "copy", continuous, schedule };
      expect(parseReplication(made).schedule).toBe(schedule);
      const fields = fieldsOf(made, "_replicator", "copy");
      expect(fields).toMatchObject({ scheduleKind: kind, schedule });
      expect(documentOf({ ...fields, scheduleKind: "none" })).not.toHaveProperty("schedule");
    },
  );

  test("can be validated once the source or the target is set", () => {
    const draft = (fields: FormFields) => draftOf(replicationOf(fields), fields.id);
    expect(draft(EMPTY_FORM)).toBeUndefined();
    const source = { ...EMPTY_FORM.source, address: "films" };
    const begun = { ...EMPTY_FORM, id: "copy", source, options: { weight: "1001" } };
    const known = { _id: "copy", source: "films", continuous: true };
    expect(draft({ ...begun, createTarget: true })).toEqual({ ...known, create_target: true });
    const target = { ...EMPTY_FORM.target, address: "copy" };
    expect(draft({ ...begun, options: {}, target })).toEqual({ ...known, target: "copy" });
    expect(draft({ ...begun, id: "" })).not.toHaveProperty("_id");
  });

  test("refuses invalid options, and refuses a password whose URL was removed", () => {
    const fields = fieldsOf(document, "_replicator", "copy");
    const wrong = { ...fields, options: { weight: "1001" } };
    expect(() => documentOf(wrong, document)).toThrow(
      new FieldError("weight", "Expected 1 to 1000"),
    );
    const negative = { ...fields, attachmentBytesMax: "-1" };
    expect(() => documentOf(negative, document)).toThrow(
      new FieldError("attachments", "Expected 0 or more"),
    );
    const moved = { ...fields.target, address: "https://ann:*****@evil.example/b" };
    expect(() => documentOf({ ...fields, target: moved }, document)).toThrow("password again");
  });

  test("reports every error with its field, and distinguishes empty fields from invalid ones", () => {
    const { errors } = replicationOf({
      ...EMPTY_FORM,
      target: { ...NO_ENDPOINT, address: "https://b.example/x", login: "basic", username: "ann" },
      selection: "filter",
      selected: "no-function",
      queryParameters: "{",
      documentBytesMax: "-1",
      options: { weight: "0", worker_batch_size: "many" },
    });
    expect([...errors].map(([field, { isMissing }]) => [field, isMissing])).toEqual([
      ["id", true],
      ["source", true],
      ["target.auth", true],
      ["filter", false],
      ["query_params", false],
      ["documents", false],
      ["worker_batch_size", false],
      ["weight", false],
    ]);
  });

  test.each([
    ["`source.url` must be a string", "source"],
    ["`source.auth.basic.username` must be a string", "source.auth"],
    ["Missing `target` field", "target"],
    ["parameter `selector` must be a JSON object", "selector"],
    ["`databases[3]` must be a pattern", "databases"],
    ["`options.schedule` must be a string", "schedule"],
    ["`documents.max_bytes` must be an integer", "documents"],
    ["`options.color` is not known. Choose from: weight", undefined],
    ["`constructor` is not known", undefined],
    ["no permission", undefined],
  ])("shows the message %s next to the field %s", (message, field) => {
    expect(fieldNamed(message)).toBe(field);
  });

  test.each([
    ["https://a.example/films", "copy", "films-to-copy"],
    ["https://ann:s3cret@a.example/films/", "films", "films-from-a.example"],
    ["films", "https://b.example:6984/films", "films-to-b.example"],
    ["films", "films", "films-to-films"],
    ["_users", "shard/db%2Fname", "users-to-shard-db-2Fname"],
    ["https://a.example/%E2%80%AEtest", "https://b.example/", "test-to-b.example"],
    ["\u202e", "b", "database-to-b"],
    ["https://ann:s3cret@", "b", ""],
    ["ann:s3cret@host/films", "b", ""],
    ["films", "", ""],
  ])("proposes the id for %s and %s: %s", (source, target, id) => {
    expect(idFor(source, target)).toBe(id);
    expect(encodeURIComponent(id)).toBe(id);
  });

  test("proposes only valid document ids, whatever the URLs contain", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.webUrl(), (source, target) => {
        for (const id of [idFor(source, target), idFor(target, source)]) {
          expect(id).toMatch(/^([A-Za-z0-9][A-Za-z0-9.-]{0,140})?$/);
        }
      }),
    );
  });

  test("hides secrets, even in the shell command, and quotes the command's arguments", () => {
    expect(
      masked({ url: "https://h/?token=x", headers: { cookie: "x" }, password: "env:A" }),
    ).toEqual({
      url: "https://h/?token=*****",
      headers: { cookie: "*****" },
      password: "env:A",
    });
    const client = { client_id: "c", client_assertion: "identity:a" };
    expect(masked(client)).toEqual(client);
    const members = [
      ...["password", "token", "api_key", "apikey", "API-Key".replace("-", "_"), "secret"],
      ...["authorization", "Authorization", "key_file_password", "Token"],
      ...["client_secret", "client_assertion"],
    ];
    for (const name of members) {
      const auth = { bearer: { [name]: "s3" }, list: [{ [name]: ["s3"] }] };
      expect(JSON.stringify(masked({ source: { auth } })), name).not.toContain("s3");
    }
    expect(masked({ tokens: "shown", password_file: "shown" })).toEqual({
      tokens: "shown",
      password_file: "shown",
    });
    const command = curlCommand("http://h/it's", document);
    expect(command).not.toMatch(/s3|s4/);
    expect(command).toContain("curl --netrc -X PUT 'http://h/it'\\''s'");
  });
});

describe("the form of a rule", () => {
  const rule = {
    source: { url: "https://a.example/", auth: { basic: { username: "ann", password: "*****" } } },
    target: "copy-{db}",
    databases: ["user-*", "team-*"],
    except: ["user-x"],
    security: ["copy-*"],
    design_documents: false,
    create_target: false,
    create_target_params: { q: 1 },
    concurrency: 5,
    delete: "stop",
    proxy: "http://proxy.example:3128",
    options: { weight: 7, schedule: "every 15m", documents: { max_bytes: 5 }, other: 1 },
    after: ["first/{db}"],
  };

  test("turns the fields of a rule back into the same rule, whatever the rule contains", () => {
    for (const body of [
      rule,
      {},
      NEW_RULE,
      { ...rule, security: false, options: {}, databases: "odd", except: [1], concurrency: "5" },
      { ...rule, security: true, delete: "keep", create_target: true, options: null },
    ]) {
      const { document, errors } = ruleOf(ruleFieldsOf(body), body);
      const empty = [...errors.values()].filter(({ isMissing }) => !isMissing);
      expect(empty).toEqual([]);
      expect({ ...body, ...document }).toEqual(body);
      if (body === rule) expect(document).toEqual(rule);
    }
  });

  test("does not reformat unedited numbers", () => {
    const text = `{"source":"local","target":"{db}","databases":["a"],"options":{"weight":1e2,"documents":{"max_bytes":12345678901234567890,"x":1.0}},"y":-0}`;
    const body = parseJson(text) as Readonly<Record<string, unknown>>;
    const fields = ruleFieldsOf(body);
    expect(printJson(ruleOf(fields, body).document)).toBe(text);
    const edited = ruleOf({ ...fields, databases: "b", concurrency: "3" }, body).document;
    expect(printJson(edited)).toBe(
      text.replace('["a"]', '["b"]').replace('"y":-0', '"y":-0,"concurrency":3'),
    );
  });

  test("creates rules that the replicator accepts", () => {
    const fields = {
      ...ruleFieldsOf(NEW_RULE),
      source: {
        ...NO_ENDPOINT,
        address: "https://a.example",
        login: "basic",
        username: "ann",
        secret: "s",
      },
      target: { ...NO_ENDPOINT, address: "https://b.example/{db}" },
      tags: "team:billing",
      after: "first/{db}\n",
      databases: " user-* \n\nteam-*",
      security: "matching",
      overwritten: "user-*",
      whenDeleted: "stop",
      createTarget: false,
      options: { weight: "200" },
    } as const;
    const { document, errors } = ruleOf(fields, NEW_RULE);
    expect([...errors]).toEqual([]);
    expect(document).toEqual({
      source: { url: "https://a.example", auth: { basic: { username: "ann", password: "s" } } },
      target: "https://b.example/{db}",
      databases: ["user-*", "team-*"],
      security: ["user-*"],
      delete: "stop",
      create_target: false,
      tags: { team: "billing" },
      after: ["first/{db}"],
      options: { weight: 200 },
    });
    const cleared = ruleOf({ ...ruleFieldsOf(document), security: "none", options: {} }, document);
    expect(cleared.document).not.toHaveProperty("security");
    expect(cleared.document).toMatchObject({ options: {} });
  });

  test("reports each error with its field", () => {
    const fields = { ...ruleFieldsOf(NEW_RULE), databases: "", concurrency: "0" };
    const { errors } = ruleOf({ ...fields, options: { weight: "0" } }, NEW_RULE);
    expect([...errors.keys()]).toEqual(["source", "target", "databases", "concurrency", "weight"]);
  });
});

describe("values that the dashboard shares with the node", () => {
  test("the dashboard has the same limits as the node", () => {
    expect({ ...limits }).toEqual({
      WHY_LENGTH_MAX: replicator.WHY_LENGTH_MAX,
      RETRY_IDS_MAX: replicator.RETRY_IDS_MAX,
      SHARES_MAX,
    });
    expect(LOG_BEGIN).toHaveLength(2 * VERSIONSTAMP_BYTES);
  });

  test("the dashboard offers only filters and orders that the node accepts", () => {
    const offered = [...FLAG_FILTERS, ...TEXT_FILTERS].map(([name]) => name);
    expect([...offered, "state", "error", "side"].toSorted()).toEqual(
      Object.keys(JOB_FILTERS).toSorted(),
    );
    const orders = SHOWN_ORDERS.map(([name]) => (name === "" ? "id" : name));
    expect(orders.toSorted()).toEqual([...JOB_ORDERS].toSorted());
  });

  test("the budget entered in the fields is valid for the node, and is shown as text", () => {
    const fields = new Map(
      BUDGET_LIMITS.map(([limit], index) => [`read.${limit}`, `${index + 1}`]),
    );
    const budget = budgetOf((field) => fields.get(field) ?? "");
    expect(budgetView(parseBudget({ ...budget }))).toEqual(budget);
    expect(budgetText(budget)).toBe("read 1 requests/s, 2 documents/s, 3 MB/s");
    expect(budgetText({ read: {}, write: {} })).toBe("no limit");
    expect(budgetText({ read: {}, write: { megabytes_per_sec: 0.5 } })).toBe("write 0.5 MB/s");
  });
});

describe("events", () => {
  const job = (id: string, name: string) =>
    ({ id, name, history: [], control: [] }) as unknown as Job;
  const event = (id: string, reported: Partial<JobEvent>): JobEvent => ({
    ...{ place: "1", time: "2026-01-01T00:00:00Z", id, changes: ["started"], matches: true },
    ...{ name: id, job: job(id, id), ...reported },
  });

  test("rows keep their places, show the latest event, and are removed with their jobs", () => {
    const lines = ["a", "b", "c"].map((id) => lineOf(job(id, id)));
    const events = [
      event("c", { job: job("c", "told first") }),
      event("c", { job: job("c", "told last") }),
      event("a", { job: null }),
      event("new id", { former_id: "b", job: job("new id", "b") }),
      event("other", {}),
    ];
    const { lines: after, goneCount, others } = linesAfter(lines, events);
    expect(after.map(({ id, name }) => [id, name])).toEqual([
      ["new id", "b"],
      ["c", "told last"],
    ]);
    expect(goneCount).toBe(1);
    expect(others.map(({ id }) => id)).toEqual(["other"]);
  });

  test("a log entry includes the decision, if any, that was made at the time of its event", () => {
    const control = [
      { action: "retry", user: "late", timestamp: "2026-01-01T00:00:02Z", why: null },
      { action: "retry", user: "ann", timestamp: "2026-01-01T00:00:01Z", why: null },
      { action: "pause", user: "root", timestamp: "2025-12-31T00:00:00Z", why: null },
    ];
    const decided = { ...job("a", "_replicator/a"), control };
    const reported = { changes: ["changed"], name: "_replicator/a", job: decided };
    expect(entryOf(event("a", reported))).toMatchObject({
      name: "_replicator/a",
      decision: { user: "ann" },
    });
    expect(entryOf(event("a", { changes: ["paused"], job: decided }))?.decision).toBeUndefined();
    expect(entryOf(event("a", { changes: ["changed"] }))).toBeUndefined();
    expect(entryOf(event("a", { changes: ["removed"], job: null }))).toMatchObject({
      name: "a",
      isGone: true,
    });
  });
});

test.each([
  ["retry", { matched: 2, changed: 2, failed: 0 }, "Retried: 2 of 2 jobs"],
  ["retry", { matched: 1, changed: 0, failed: 0 }, "Nothing to retry: 1 running"],
  [
    "retry",
    { matched: 3, changed: 1, failed: 1 },
    "Retried: 1 of 3 jobs (1 running, 1 must be resumed first)",
  ],
  ["pause", { matched: 2, changed: 0, failed: 1 }, "Nothing to pause: 1 paused already, 1 ended"],
  ["resume", { matched: 0, changed: 0, failed: 0 }, "No jobs to resume"],
] as const)("the result of %s for %j is %j", (command, result, words) => {
  expect(resultWords(command, result)).toBe(words);
});

describe("a server's state is unknown without evidence", () => {
  const timeAt = (second: number): string => new Date(second * 1000).toISOString();

  const EVENT_TYPES = ["added", "started", "stopped", "parked", "crashed", "stalled", "completed"];
  const events = fc.array(fc.constantFrom(...EVENT_TYPES), { maxLength: 10 });
  const second = fc.nat({ max: 10 });

  test("the last success is the time at which a successful run ended", () => {
    fc.assert(
      fc.property(events, fc.option(second), fc.option(second), (types, lag_sec, failing) => {
        const history = types.map((type, n) => ({ type, timestamp: timeAt(10 - n) }));
        const failing_since = failing === null ? null : timeAt(failing);
        const found = lastSuccess({ history, lag_sec, failing_since } as unknown as Job);
        const event = history.find(({ timestamp }) => timestamp === found);
        if (event === undefined) {
          expect(found).toBeNull();
          for (const type of ["parked", "completed"]) expect(types).not.toContain(type);
          if (lag_sec !== null && failing === null) expect(types).not.toContain("stopped");
          return;
        }
        expect(["stopped", "parked", "completed"]).toContain(event.type);
        if (event.type !== "stopped") return;
        expect(lag_sec).not.toBeNull();
        if (failing_since !== null) expect(event.timestamp < failing_since).toBe(true);
      }),
    );
  });

  test.each([
    [null, 3, true],
    [null, null, null],
    [{ confirmed: false, probed: timeAt(0) }, 3, null],
    [{ confirmed: true, probed: timeAt(0) }, 3, false],
  ])(
    "with outage %j and latency %j, a server counts as reached: %j",
    (outage, latency_ms, expected) => {
      expect(isReached({ outage, latency_ms })).toBe(expected);
    },
  );
});
