/**
 * Malformed responses derived from valid ones: changed statuses, headers and JSON, invalid
 * multipart bodies, wrong lengths, and endless bodies. The choice depends only on the random
 * stream.
 */
import { gzipSync } from "node:zlib";
import type { SeededRandom } from "../simulation/kernel/seeded-random.ts";

export interface PeerAnswer {
  readonly status: number;
  /** The list can contain the same name more than once. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  readonly framing: Framing;
}

/**
 * Form in which a body is sent:
 *
 *   whole      with the correct length
 *   chunked    complete, in chunks
 *   length     with a Content-Length that is wrong by `off` bytes
 *   cut        `byteCount` bytes, then a reset of the connection
 *   stall      `byteCount` bytes, then nothing
 *   endless    the body, then up to `byteCountMax` bytes of `filler`, then a reset
 *   raw        a body that contains the status line and headers; nothing else is sent
 */
export type Framing =
  | { readonly kind: "whole" | "chunked" | "raw" }
  | { readonly kind: "length"; readonly off: number }
  | { readonly kind: "cut" | "stall"; readonly byteCount: number }
  | { readonly kind: "endless"; readonly filler: Buffer; readonly byteCountMax: number };

/** The request to which a response belongs. */
export interface Asked {
  /** URL of the peer. */
  readonly url: string;
  /**
   * Path within the database, without the query: `_changes`, `_local/x`, `doc-1`. The path is empty
   * for the database itself.
   */
  readonly resource: string;
  /** Headers of the request. */
  readonly headers: Readonly<Record<string, unknown>>;
}

type Mutation = (answer: PeerAnswer, asked: Asked, random: SeededRandom) => PeerAnswer;

/** Length of a body that exceeds all limits for responses. */
const ENDLESS_BYTES = 160 * 1024 * 1024;
/**
 * Total length of the rows or heartbeats of an endless feed. The server ends the feed after this
 * length, because the client has no limit that would end it.
 */
const LIVELY_BYTES = 262_144;

const MUTATIONS: readonly (readonly [weight: number, mutate: Mutation])[] = [
  [14, withOtherJson],
  [5, withOtherText],
  [4, withOtherStatus],
  [3, echoing],
  [3, withOddHeaders],
  [2, redirected],
  [3, framedWrongly],
  [3, withDamagedBytes],
  [4, withOtherParts],
  [1, bomb],
  [0.3, endless],
  [0.2, tooLong],
  [4, asFits],
];

export function mutated(answer: PeerAnswer, asked: Asked, random: SeededRandom): PeerAnswer {
  const total = MUTATIONS.reduce((sum, [weight]) => sum + weight, 0);
  let draw = random.ratio() * total;
  for (const [weight, mutate] of MUTATIONS) {
    draw -= weight;
    if (draw < 0) return mutate(answer, asked, random);
  }
  return answer;
}

/** Adds the request, in some encoding, to human-readable parts of a response. */
function echoing(answer: PeerAnswer, { headers, url }: Asked, random: SeededRandom): PeerAnswer {
  const sent = JSON.stringify(headers);
  const echo = random.pick([
    sent,
    encodeURIComponent(sent),
    Buffer.from(sent).toString("base64"),
    Buffer.from(sent).toString("hex"),
    sent.replaceAll('"', "&quot;"),
  ]);
  const body = random.pick([
    JSON.stringify({ error: "bad_request", reason: echo }),
    JSON.stringify({ error: echo, reason: "x" }),
    JSON.stringify([{ id: "doc-1", error: echo, reason: echo }]),
    JSON.stringify({ results: [{ seq: 1, echo }], last_seq: 1 }),
    JSON.stringify({ _id: "doc-1", _rev: "1-a", [`_${echo}`]: 1 }),
    `<html>${echo}</html>`,
  ]);
  const location = ["location", `${url}?${encodeURIComponent(echo)}`] as const;
  return {
    ...answer,
    status: random.pick([200, 201, 301, 400, 401, 403, 404, 409, 412, 417, 500, 503]),
    headers: random.chance(0.2) ? [...answer.headers, location] : answer.headers,
    body: Buffer.from(body),
  };
}

const STATUSES = [
  200, 201, 202, 204, 206, 301, 304, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 417, 429,
  500, 502, 503, 599, 999,
];
const ERROR_BODIES = [
  "",
  "{",
  "[]",
  "null",
  "<html>",
  '{"error":5,"reason":{"toString":1,"valueOf":1}}',
  '{"error":["x"],"reason":null}',
  `{"error":"x","reason":"${"long ".repeat(50_000)}"}`,
  `{"error":"${"x".repeat(300_000)}","reason":"y"}`,
  '{"error":"missing_stub","reason":"\\ud800"}',
];

function withOtherStatus(answer: PeerAnswer, _: Asked, random: SeededRandom): PeerAnswer {
  const body = random.chance(0.3) ? answer.body : Buffer.from(random.pick(ERROR_BODIES));
  return { ...answer, status: random.pick(STATUSES), body };
}

const ODD_HEADERS: readonly (readonly [string, string])[] = [
  ["content-encoding", "gzip"],
  ["content-encoding", "br, gzip, x"],
  ["content-type", ""],
  ["content-type", "multipart/mixed"],
  ["content-type", 'multipart/mixed; boundary=""'],
  ["content-type", `multipart/mixed; boundary=${"b".repeat(500)}`],
  ["content-type", "application/json; charset=utf-16"],
  ["set-cookie", "AuthSession=x; Max-Age=99999999999999999999"],
  ["set-cookie", "AuthSession=\u00ff; Max-Age=0"],
  ["date", "yesterday"],
  ["etag", '"'],
  ["transfer-encoding", "gzip"],
  ["content-length", "-1"],
  ["content-length", "1e3"],
  ["content-length", "99999999999999999999"],
  ["x-long", "x".repeat(100_000)],
  ["trailer", "x"],
  ["upgrade", "h2c"],
];
const RETRY_TIMES = ["-5", "NaN", "1e999", "0", "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT", ""];

function withOddHeaders(answer: PeerAnswer, _: Asked, random: SeededRandom): PeerAnswer {
  if (random.chance(0.3)) {
    const later = ["retry-after", random.pick(RETRY_TIMES)] as const;
    return { ...answer, status: random.pick([429, 503]), headers: [...answer.headers, later] };
  }
  if (random.chance(0.1)) {
    const many = Array.from({ length: 3_000 }, (_, index) => [`x-${index}`, "x"] as const);
    return { ...answer, headers: [...answer.headers, ...many] };
  }
  const odd = random.pick(ODD_HEADERS);
  const others = answer.headers.filter(([name]) => name !== odd[0] || random.chance(0.3));
  return { ...answer, headers: [...others, odd] };
}

/**
 * Returns a redirect to the same URL, a neighbouring path, an address without a server, or an
 * invalid URL.
 */
function redirected(answer: PeerAnswer, { url }: Asked, random: SeededRandom): PeerAnswer {
  const location = random.pick([
    url,
    `${url}x`,
    `${url}/../..`,
    "http://127.0.0.1:1/",
    "//[",
    "file:///etc/passwd",
    "",
    "?",
    `/${"x".repeat(9_000)}`,
  ]);
  const headers = [...answer.headers, ["location", location] as const];
  return { ...answer, status: random.pick([301, 302, 303, 307, 308]), headers };
}

function framedWrongly(answer: PeerAnswer, _: Asked, random: SeededRandom): PeerAnswer {
  const { length } = answer.body;
  const framing = random.pick<Framing>([
    { kind: "length", off: 1 + random.integer(1_000) },
    { kind: "length", off: -random.integer(length + 1) },
    { kind: "cut", byteCount: random.integer(length + 1) },
    { kind: "stall", byteCount: random.integer(length + 1) },
    { kind: "chunked" },
  ]);
  if (random.chance(0.8)) return { ...answer, framing };
  const raw = random.pick([
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/1.1 100 Continue\r\n\r\n".repeat(50),
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "HTTP/9.9 abc\r\n\r\n",
    "<html>",
    "",
  ]);
  return { ...answer, body: Buffer.from(raw), framing: { kind: "raw" } };
}

function withDamagedBytes(answer: PeerAnswer, _: Asked, random: SeededRandom): PeerAnswer {
  const body = Buffer.from(answer.body);
  for (let count = 1 + random.integer(4); count > 0 && body.length > 0; count--) {
    body[random.integer(body.length)] = random.pick([0xff, 0xc3, 0, 0x22, random.integer(256)]);
  }
  return { ...answer, body: random.chance(0.1) ? Buffer.concat([body, body]) : body };
}

/** Returns a decompression bomb. */
function bomb(answer: PeerAnswer): PeerAnswer {
  const headers = [...answer.headers, ["content-encoding", "gzip"] as const];
  return { ...answer, headers, body: BOMB };
}

const BOMB = gzipSync(Buffer.alloc(50_000_000, 0x5b));

/** Returns a response with an endless value, line or row. */
function endless(answer: PeerAnswer, _: Asked, random: SeededRandom): PeerAnswer {
  const text = answer.body.toString("latin1");
  const at = text.indexOf('":');
  const [before, filler, byteCountMax] = random.pick([
    [`${text.slice(0, Math.max(0, at + 2))}"`, "a", ENDLESS_BYTES],
    [text.slice(0, Math.max(0, at + 2)), "[", ENDLESS_BYTES],
    ['{"results":[{"seq":1,"id":"a","changes":[', '{"rev":"1-a"},', ENDLESS_BYTES],
    ['{"results":[', "1,", LIVELY_BYTES],
    ['{"results":[', "\n", LIVELY_BYTES],
    ["", " ", ENDLESS_BYTES],
    ["--x\r\n", "a: b\r\n", ENDLESS_BYTES],
    ["[", "{},", ENDLESS_BYTES],
    ['{"results":[', "{},", ENDLESS_BYTES],
    ["{", '"a":0,', ENDLESS_BYTES],
    ['[{"ok":{"_id":"doc-1","_rev":"1-a","_revisions":{"start":1,"ids":[', '"a",', ENDLESS_BYTES],
    ['[{"ok":{"_id":"doc-1","_rev":"1-a","_attachments":{', '"a":{},', ENDLESS_BYTES],
  ] as const);
  const framing: Framing = {
    kind: "endless",
    filler: Buffer.from(filler.repeat(Math.ceil(65_536 / filler.length))),
    byteCountMax,
  };
  return { ...answer, body: Buffer.from(before, "latin1"), framing };
}

/** Returns a valid response that exceeds every size limit. */
function tooLong(answer: PeerAnswer): PeerAnswer {
  return { ...answer, body: Buffer.concat([Buffer.alloc(ENDLESS_BYTES / 2, 0x20), answer.body]) };
}

/**
 * Changes headers, boundaries, parts or the length of a multipart response. For any other response,
 * changes the JSON.
 */
function withOtherParts(answer: PeerAnswer, asked: Asked, random: SeededRandom): PeerAnswer {
  const text = answer.body.toString("latin1");
  const boundary = /^(?:\r\n)?--([^\r\n]+)\r\n/.exec(text)?.[1];
  if (boundary === undefined) return withOtherJson(answer, asked, random);
  const headers = answer.headers.map(([name, value]) => {
    const isType = name === "content-type" && random.chance(0.3);
    return [name, isType ? value.replace(boundary, random.pick(["x", ""])) : value] as const;
  });
  const changes: readonly (() => string)[] = [
    () => text.replace(`--${boundary}--`, ""),
    () => text.replaceAll(`--${boundary}`, `--${boundary}--`),
    () => text + text,
    () => text.replace("\r\n\r\n", `\r\n${"x-a: b\r\n".repeat(20_000)}\r\n`),
    () => text.replace("\r\n\r\n", "\r\n"),
    () => text.replace(/content-type: [^\r]*/i, "content-type: multipart/related"),
    () => text.replace(/content-type: [^\r]*/i, 'content-type: application/json; error="true"'),
    () => text.replace(/filename="[^"]*"/i, 'filename="other"'),
    () => text.replace(/"(encoded_)?length":\d+/g, `"$1length":${random.pick([0, 1, 9e9])}`),
    () => text.replace(/"digest":"[^"]*"/g, '"digest":"md5-AAAAAAAAAAAAAAAAAAAAAA=="'),
    () => text.replace(/"content_type":"[^"]*"/g, '"content_type":"a/b\\r\\nx-injected: 1\\r\\n"'),
    () => text.replace(/"follows":true/g, random.pick(['"stub":true', '"data":"YWJj"', '"x":1'])),
    () => text.replace(/"stub":true/g, '"follows":true'),
    () => text.replace(/"encoding":"gzip"/g, '"encoding":"x\\r\\n"'),
    () => text.slice(0, random.integer(text.length)),
  ];
  return { ...answer, headers, body: Buffer.from(random.pick(changes)(), "latin1") };
}

/** JSON texts that change when they are parsed and serialized again. */
const RAW_VALUES: readonly string[] = [
  "null",
  "true",
  "-1",
  "0.5",
  "1e999",
  "-1e999",
  "123456789012345678901234567890",
  '""',
  '"\\u0000"',
  '"\\ud800"',
  '"0-x"',
  '"1-"',
  '"99999999999999999999-abc"',
  '"_local/x"',
  '"../../_users"',
  "[]",
  "[[]]",
  "{}",
  '{"__proto__":{"x":1},"constructor":null}',
  '{"toString":1,"valueOf":1}',
  '{"ok":true,"ok":false}',
  '{"error":{"toString":1},"reason":[1]}',
  `${"[".repeat(100_000)}${"]".repeat(100_000)}`,
  `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`,
  `"${"x".repeat(2_000_000)}"`,
  `[${"1,".repeat(200_000)}1]`,
];
/** Rows and documents, as JSON texts, that the client has not requested. */
const STRAY_VALUES: readonly string[] = [
  '{"id":"stray","rev":"1-abc","error":"forbidden","reason":"no"}',
  '{"_id":"stray","_rev":"1-abc","_revisions":{"start":1,"ids":["abc"]}}',
  '{"_id":"doc-1","_rev":"x","_revisions":{"start":-3,"ids":[]}}',
  '{"ok":{"_id":"stray","_rev":"1-b","_revisions":{"start":1,"ids":["b"]},"stray":1}}',
  '{"_id":"_design/stray","_rev":"1-d","filters":7}',
  '{"seq":"x","id":"stray","changes":[{"rev":5},{"rev":"1-a"},null]}',
];

/** Returns JSON in which a few values are changed, duplicated or removed. */
function withOtherJson(answer: PeerAnswer, asked: Asked, random: SeededRandom): PeerAnswer {
  let json: unknown;
  try {
    json = JSON.parse(answer.body.toString());
  } catch {
    return withDamagedBytes(answer, asked, random);
  }
  const placed: string[] = [];
  for (let count = 1 + random.integer(3); count > 0; count--) {
    json = changed(json, random, (raw) => `@@${placed.push(raw) - 1}@@`);
  }
  const text = JSON.stringify(json).replace(
    /"@@(\d+)@@"/g,
    (_, at) => placed[Number(at)] as string,
  );
  return { ...answer, body: Buffer.from(text) };
}

function changed(value: unknown, random: SeededRandom, place: (raw: string) => string): unknown {
  const other = (): string => place(random.pick(random.chance(0.2) ? STRAY_VALUES : RAW_VALUES));
  if (random.chance(0.15) || typeof value !== "object" || value === null) return other();
  if (Array.isArray(value)) {
    if (value.length === 0 || random.chance(0.2)) return [...value, other()];
    const at = random.integer(value.length);
    if (random.chance(0.15)) return [...value, value[at]];
    if (random.chance(0.15)) return value.toSpliced(at, 1);
    return value.with(at, changed(value[at], random, place));
  }
  const names = Object.keys(value);
  if (names.length === 0) return other();
  const name = random.pick(names);
  const { [name]: inner, ...others } = value as Record<string, unknown>;
  if (random.chance(0.12)) return others;
  if (random.chance(0.08)) return { ...others, [random.pick(["x", "__proto__", "_x"])]: inner };
  return { ...value, [name]: changed(inner, random, place) };
}

/**
 * Changes the text of the JSON: duplicates a member, spells a member differently, or adds
 * unexpected whitespace.
 */
function withOtherText(answer: PeerAnswer, _: Asked, random: SeededRandom): PeerAnswer {
  const text = answer.body.toString("latin1");
  const changes: readonly (() => string)[] = [
    () => text.replace(/\{("[^"]*":)/, "{$1null,$1"),
    () => text.replace(/("_?id":)/, "$15,$1"),
    () => text.replace(/\{/g, "{ \n\t"),
    () => text.replace(/"_rev"/g, '"\\u005frev"'),
    () => `\ufeff${text}`,
    () => text.replace(/"results"/, '"rows"'),
    () => text.slice(0, random.integer(text.length + 1)),
    () => text.replace(/\}\s*$/, `,"more":"${"x".repeat(500_000)}"}`),
    () =>
      text.replace(/\b(seq|last_seq|update_seq)":"?[^,}"]*"?/g, `$1":${random.pick(RAW_VALUES)}`),
    () => text.replace(/"rev":"[^"]*"/g, `"rev":${random.pick(RAW_VALUES)}`),
  ];
  return { ...answer, body: Buffer.from(random.pick(changes)(), "latin1") };
}

/** Returns a hostile response that is specific to the type of the requested resource. */
function asFits(answer: PeerAnswer, asked: Asked, random: SeededRandom): PeerAnswer {
  const { resource } = asked;
  const fitting = BODIES.find(([pattern]) => pattern.test(resource))?.[1];
  if (fitting === undefined) return withOtherJson(answer, asked, random);
  const status = random.chance(0.8) && answer.status >= 400 ? 200 : answer.status;
  return { ...answer, status, body: Buffer.from(random.pick(fitting)()) };
}

const entries = (count: number, entry: string): string =>
  Array.from({ length: count }, (_, at) => entry.replace("@", String(at))).join(",");

const BODIES: readonly (readonly [RegExp, readonly (() => string)[]])[] = [
  [
    /^_local\//,
    [
      () =>
        `{"_id":"_local/x","_rev":"0-1","session_id":"s","history":[${entries(1_000_000, "{}")}]}`,
      () =>
        `{"_id":"_local/x","_rev":"0-1","session_id":"s","history":[${entries(100_000, '{"session_id":"s-@","recorded_seq":@}')}]}`,
      () => '{"_id":"_local/x","_rev":"0-1","history":[null,5,{"recorded_seq":-7}]}',
      () => '{"_id":"_local/x","_rev":"0-1","session_id":null,"source_last_seq":{"a":[1]}}',
      () => '{"_id":"_local/x","_rev":7,"session_id":"s","source_last_seq":-1,"history":"none"}',
      () => '{"session_id":{},"history":[{"docs_read":-9e99,"doc_write_failures":"many"}]}',
      () => `{"_rev":"${"1".repeat(500_000)}"}`,
      () => "[]",
      () => "5",
    ],
  ],
  [
    /^_revs_diff$/,
    [
      () => '{"stray":{"missing":["1-a"]},"_local/x":{"missing":["1-a"]},"_users":{"missing":[]}}',
      () => '{"doc-1":null,"doc-2":[],"doc-3":{"missing":5},"doc-4":{"missing":[null,"x"]}}',
      () => '{"doc-1":{"missing":["9-f","1-"],"possible_ancestors":[1,{},"x","1-a"]}}',
      () => `{"doc-1":{"missing":["1-a"],"possible_ancestors":[${entries(500_000, '"1-@"')}]}}`,
      () => `{${entries(200_000, '"stray-@":{"missing":["1-a"]}')}}`,
      () => "[]",
      () => "{}",
    ],
  ],
  [
    /^_bulk_docs$/,
    [
      () => `[${entries(100_000, '{"id":"stray-@","error":"forbidden","reason":"no"}')}]`,
      () => '[{"id":"doc-1","error":{"toString":1},"reason":{"toString":1}}]',
      () => '[{"id":"doc-1","rev":5,"status":1e308,"error":"x","reason":null},null,5,"x"]',
      () =>
        '[{"id":"doc-1","status":-1,"error":"__proto__"},{"id":"doc-2","status":0.5,"error":""}]',
      () => `[{"id":"doc-1","error":"forbidden","reason":"${"no ".repeat(500_000)}"}]`,
      () => '[{"id":"doc-1","error":"internal_server_error","status":500}]',
      () => "{}",
      () => "[[]]",
    ],
  ],
  [
    /^_bulk_get$/,
    [
      () => '{"results":[]}',
      () => `{"results":[${entries(50_000, "{}")}]}`,
      () => '{"results":[{"id":"doc-1","docs":[{"ok":{"_id":"stray","_rev":"1-a"}}]}]}',
      () => '{"results":{"length":1}}',
    ],
  ],
  [
    /^_changes$/,
    [
      () => '{"results":[],"last_seq":{"a":1},"pending":-5}',
      () => `{"results":[],"last_seq":"${"s".repeat(3_000_000)}"}`,
      () => `{"results":[{"seq":"${"s".repeat(300_000)}","id":"doc-1","changes":[{"rev":"1-a"}]}]}`,
      () => `{"results":[{"seq":1,"id":"${"i".repeat(60_000)}","changes":[{"rev":"1-a"}]}]}`,
      () => `{"results":[{"seq":1,"id":"doc-1","changes":[${entries(20_000, '{"rev":"1-a@"}')}]}]}`,
      () => '{"results":[{"seq":1,"id":"_local/x","changes":[{"rev":"1-a"}]}],"last_seq":1}',
      () => '{"results":[{"seq":1,"id":"\\ud800","changes":[{"rev":"1-a"}]}],"last_seq":1}',
      () => '{"results":[null,5,{"id":5},{"id":"a","changes":{}}],"last_seq":[]}',
      () => `{"results":[{"seq":1,"id":"a","changes":[{"rev":"1-${"f".repeat(100_000)}"}]}]}`,
    ],
  ],
  [/^$/, [() => '{"update_seq":{"toString":1},"instance_start_time":{"toString":1}}', () => "[]"]],
  [/^_ensure_full_commit$/, [() => '{"instance_start_time":{"toString":1}}', () => '{"ok":1}']],
];
