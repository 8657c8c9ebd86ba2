/** Batches of requests (decision 304): each request gets the same response as if sent alone. */
import { expect, test } from "vitest";
import type { User } from "../../src/api/index.ts";
import {
  BATCH_BODY_BYTES_MAX,
  type BatchMessage,
  BatchReader,
  batchMessage,
} from "../../src/protocol/index.ts";
import { type Answer, type OpenApi, openApi, openFilms } from "./api.fixture.ts";
import { refusal } from "./rows.ts";

const TYPE = "application/vnd.tandem.batch";

interface Sent {
  readonly method?: unknown;
  readonly path?: unknown;
  readonly headers?: unknown;
  readonly body?: unknown;
}

/** Routes that a batch may call, in the order of the API's routes. */
const BATCHED = [
  "GET /{database}",
  "GET /{database}/_local/{name}",
  "PUT /{database}/_local/{name}",
  "POST /{database}/_bulk_docs",
  "POST /{database}/_bulk_get",
  "POST /{database}/_revs_diff",
  "GET /{database}/_changes",
  "POST /{database}/_changes",
  "POST /{database}/_ensure_full_commit",
  "POST /{database}/_local/{name}/_continue",
].toSorted();

const JSON_TYPE = { "content-type": "application/json" };
const encoder = new TextEncoder();

function batchOf(requests: readonly Sent[]): Uint8Array {
  const messages = requests.flatMap(({ body, ...head }) =>
    batchMessage(head, encoder.encode(body === undefined ? "" : JSON.stringify(body))),
  );
  return Buffer.concat(messages);
}

function send(
  { ask }: Pick<OpenApi, "ask">,
  body: Uint8Array | string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return ask("POST /_tandem/_batch", { body, headers: { "content-type": TYPE, ...headers } });
}

/** Returns the responses in the order of the requests. */
async function answersTo(
  api: OpenApi,
  requests: readonly Sent[],
): Promise<readonly BatchMessage[]> {
  const answer = await send(api, batchOf(requests));
  expect(answer).toMatchObject({ status: 200, headers: { "Content-Type": TYPE } });
  const reader = new BatchReader();
  const messages = reader.push(answer.bytes);
  expect(reader.isWhole).toBe(true);
  return messages.toSorted((left, right) => Number(left.head.request) - Number(right.head.request));
}

const text = ({ body }: BatchMessage): string => new TextDecoder().decode(body);

test("each request in a batch gets the same response as a request sent alone", async () => {
  const films = await openFilms();
  const post = (path: string, body: unknown): Sent => ({
    method: "POST",
    path,
    headers: JSON_TYPE,
    body,
  });
  const document = { _id: "alien", _rev: "1-aaaa", title: "Alien" };
  await films.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs: [document] } });
  const log = { session_id: "one", source_last_seq: "5-x", history: [] };
  await films.ask("PUT /films/_local/log", { body: log });
  const requests: readonly Sent[] = [
    { method: "GET", path: "/films" },
    { method: "GET", path: "/films/_changes?style=all_docs" },
    post("/films/_changes?filter=_doc_ids", { doc_ids: ["alien"] }),
    post("/films/_revs_diff", { alien: ["1-aaaa", "2-bbbb"] }),
    post("/films/_bulk_get?revs=true", { docs: [{ id: "alien" }] }),
    post("/films/_bulk_docs", { new_edits: false, docs: [document] }),
    post("/films/_ensure_full_commit", undefined),
    { method: "GET", path: "/films/_local/log" },
    post("/films/_local/log/_continue", log),
    { method: "GET", path: "/films/_local/none" },
    { method: "GET", path: "/missing" },
    { method: "PUT", path: "/films/_local/second", headers: JSON_TYPE, body: log },
    post("/films/_revs_diff", "no object"),
  ];
  const answers = await answersTo(films, requests);
  await films.ask("DELETE /films/_local/second?rev=0-1");
  for (const [number, { method, path, headers, body }] of requests.entries()) {
    const alone = await films.ask(`${method} ${path}`, {
      headers: headers === JSON_TYPE ? JSON_TYPE : {},
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { head } = answers[number] as BatchMessage;
    expect({ path, status: head.status, text: text(answers[number] as BatchMessage) }).toEqual({
      path,
      status: alone.status,
      text: alone.text,
    });
    const common = ["Cache-Control", "Server", "X-Couch-Request-ID", "X-CouchDB-Body-Time"];
    const own = Object.entries(alone.headers).filter(([name]) => !common.includes(name));
    expect(head).toEqual({
      request: number,
      status: alone.status,
      headers: Object.fromEntries(own),
      bytes: alone.bytes.length,
    });
  }
});

test("each request is authorized separately, with the permissions of the batch's sender", async () => {
  const user: User = { name: "anna", roles: [], isAdmin: false };
  const parts = await openFilms();
  await parts.ask("PUT /secrets");
  await parts.ask("PUT /films/_security", { body: { members: { names: ["anna"] } } });
  const { kv, databases, attachments } = parts.parts;
  const asAnna = await openApi({ user, parts: { kv, databases, attachments } });
  const answers = await answersTo(asAnna, [
    { method: "GET", path: "/films" },
    { method: "GET", path: "/secrets" },
    { method: "GET", path: "/_users/_changes" },
  ]);
  expect(answers.map(({ head }) => head.status)).toEqual([200, 403, 401]);
});

test("the sender is authenticated once per batch", async () => {
  let count = 0;
  const renewed = {
    name: "anna",
    roles: ["_admin"],
    isAdmin: true,
    renewedCookie: "AuthSession=2",
  };
  const films = await openFilms({
    parts: {
      authenticate: async () => {
        count++;
        return renewed;
      },
    },
  });
  count = 0;
  const answer = await send(
    films,
    batchOf([
      { method: "GET", path: "/films" },
      { method: "GET", path: "/films" },
    ]),
  );
  expect(count).toBe(1);
  expect(answer.headers["Set-Cookie"]).toBe("AuthSession=2");
  expect(answer.text).not.toContain("AuthSession");
});

test("each request in a batch emits the same event as a request sent alone", async () => {
  const films = await openFilms();
  await answersTo(films, [
    { method: "GET", path: "/films" },
    { method: "GET", path: "/none" },
  ]);
  const answered = films.events.filter(({ name }) => name === "api.answered").slice(-3);
  answered.sort((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? 1 : -1));
  expect(answered).toMatchObject([
    { method: "POST", path: "/_tandem/_batch", status: 200 },
    { method: "GET", path: "/none", status: 404 },
    { method: "GET", path: "/films", status: 200 },
  ]);
});

test("the client must repeat a request separately if its response is too long for a batch", async () => {
  const films = await openFilms();
  const docs = Array.from({ length: 3_000 }, (_, number) => ({ _id: `film-${number}` }));
  await films.ask("POST /films/_bulk_docs", { body: { docs } });
  const [long, short] = await answersTo(films, [
    { method: "GET", path: "/films/_changes" },
    { method: "GET", path: "/films/_changes?limit=2" },
  ]);
  expect(long).toMatchObject({ head: { request: 0, alone: true, bytes: 0 } });
  expect(long?.head.status).toBeUndefined();
  expect(short?.head.status).toBe(200);
});

test("a batch includes a response of the maximum length", async () => {
  const films = await openFilms();
  const request = { method: "GET", path: "/films/_local/long" };
  const writeAndRead = async (length: number): Promise<BatchMessage | undefined> => {
    await films.ask("PUT /films/_local/long", { body: { text: "x".repeat(length) } });
    const [answer] = await answersTo(films, [request]);
    await films.ask("DELETE /films/_local/long");
    return answer;
  };
  const around = Number((await writeAndRead(0))?.head.bytes);
  const longest = BATCH_BODY_BYTES_MAX - around;
  expect((await writeAndRead(longest))?.head).toMatchObject({ bytes: BATCH_BODY_BYTES_MAX });
  expect((await writeAndRead(longest + 1))?.head).toMatchObject({ alone: true, bytes: 0 });
});

test("a batch holds only a few long responses, and the client must repeat the other requests separately", async () => {
  const films = await openFilms();
  const docs = Array.from({ length: 2_000 }, (_, number) => ({ _id: `film-${number}` }));
  await films.ask("POST /films/_bulk_docs", { body: { docs } });
  const { bytes } = await films.ask("GET /films/_changes");
  const requests = Array.from({ length: 50 }, () => ({ method: "GET", path: "/films/_changes" }));
  const answers = await answersTo(films, requests);
  const whole = answers.filter(({ head }) => head.alone !== true);
  expect(whole.length).toBeLessThanOrEqual((1024 * 1024) / bytes.length);
  for (const { body } of whole) expect(Buffer.from(body).equals(bytes)).toBe(true);
});

test.each<[Sent, string]>([
  [{}, "Message 0 of the batch needs a `method` and a `path`"],
  [{ method: "GET" }, "Message 0 of the batch needs a `method` and a `path`"],
  [{ method: "GET", path: "films" }, "Message 0 of the batch needs a `method` and a `path`"],
  [
    { method: "GET", path: "/films", headers: [] },
    "The `headers` of message 0 of the batch must be an object",
  ],
  [
    { method: "GET", path: "/films", headers: { "X-Auth-CouchDB-UserName": "root" } },
    "`headers` of message 0 has X-Auth-CouchDB-UserName; allowed are the strings accept and content-type",
  ],
  [
    { method: "GET", path: "/films", headers: { accept: 1 } },
    "`headers` of message 0 has accept; allowed are the strings accept and content-type",
  ],
  ...(
    [
      ["GET", "/"],
      ["GET", "//"],
      ["DELETE", "/films"],
      ["GET", "/films/_all_docs"],
      ["GET", "/films/doc"],
      ["PUT", "/films/_local/a/b"],
      ["GET", "/films/_local"],
      ["GET", "/films/_local%2Flog"],
      ["GET", "/films/_changes?feed=longpoll"],
      ["GET", "/films/_changes?feed=continuous"],
      ["GET", "/_session"],
      ["POST", "/_tandem/_batch"],
      ["GET", "/_node/_local/_config"],
    ] as const
  ).map(([method, path]): [Sent, string] => [
    { method, path },
    `${method} ${path.replace(/\?.*/, "")} is not allowed in a batch (message 0); allowed are ${BATCHED.join(", ")}, without a feed`,
  ]),
])("%j makes the API refuse the whole batch", async (request, reason) => {
  const films = await openFilms();
  const well = { method: "PUT", path: "/films/_local/log", headers: JSON_TYPE, body: {} };
  const answer = await send(films, batchOf([request, well]));
  expect(answer).toMatchObject(refusal(400, "bad_request", reason));
  expect((await films.ask("GET /films/_local/log")).status).toBe(404);
});

test("the API refuses an invalid batch", async () => {
  const films = await openFilms();
  expect(await send(films, "{}", { "content-type": "application/json" })).toMatchObject(
    refusal(415, "bad_content_type", `Content-Type must be ${TYPE}`),
  );
  expect(await send(films, '{"bytes":1}\n')).toMatchObject(
    refusal(400, "bad_request", "The batch ends inside a message"),
  );
  expect(await send(films, "x\n")).toMatchObject(
    refusal(
      400,
      "bad_request",
      "The head of message 0 of the batch must be a JSON object on one line",
    ),
  );
  expect((await send(films, new Uint8Array(2 * 1024 * 1024 + 1))).status).toBe(413);
  expect(await send(films, "")).toMatchObject({ status: 200, text: "" });
});
