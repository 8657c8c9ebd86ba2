/**
 * The `tandem` command with servers other than Tandem, and with servers that send invalid
 * responses.
 */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Ran, tandem as run } from "../../support/tandem-command.ts";

interface Answer {
  readonly status?: number;
  readonly type?: string;
  readonly body: string;
}

let server: Server;
let url: string;
/** Response to every request. Each test sets it. */
let answer: Answer;

beforeAll(async () => {
  server = createServer((request, response) => {
    request.resume();
    response.writeHead(answer.status ?? 200, { "content-type": answer.type ?? "application/json" });
    response.end(answer.body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

const tandem = (command: string): Promise<Ran> => run([...command.split(" "), "--server", url]);

test("text sent by a server cannot control the terminal", async () => {
  answer = { status: 400, body: '{"error":"bad\\u001b[2J","reason":"no\\u009b31m"}' };
  expect(await tandem("jobs list")).toEqual({
    code: 2,
    output: "",
    errors: "tandem: 400 bad\ufffd[2J: no\ufffd31m\n",
  });
  answer = { body: '"/tmp\\u001b[2J"' };
  expect((await tandem("config get log file")).output).toBe("/tmp\ufffd[2J\n");
});

test("JSON sent by a server keeps its value, but cannot control the terminal", async () => {
  const job = { id: "a\u009b2J\u001b[2J\u202e", state: "running" };
  answer = {
    body: JSON.stringify({ total_rows: 1, offset: 0, jobs: [job], bookmark: "\u009b31m" }),
  };
  const { code, output } = await tandem("jobs list --json");
  expect(code).toBe(0);
  expect(output).toMatch(/^[\x20-\x7e]+\n$/);
  expect(JSON.parse(output)).toMatchObject({ jobs: [job], bookmark: "\u009b31m" });
});

test.each(["secrets status", "jobs show a", "nodes list", "budgets list", "endpoints"])(
  "`%s` prints no terminal control characters",
  async (command) => {
    const evil = "\u001b[2J\u009b31m\u202e\r";
    const keys = { key: evil, keys: [evil], newest: evil, sealed_with: evil };
    const state = { rotation: { state: evil, error: evil }, nodes: [{ name: evil, keys: [evil] }] };
    answer = { body: JSON.stringify({ ...keys, ...state, error: evil, reason: evil, id: evil }) };
    const { output, errors } = await tandem(command);
    for (const char of evil) {
      if (/[^ -~]/.test(char)) expect(output + errors).not.toContain(char);
    }
  },
);

test.each<[string, Answer, string]>([
  ["a page", { type: "text/html", body: "<p>" }, "responded with text/html instead of a feed"],
  ["an object", { body: "{}" }, "responded with application/json instead of a feed"],
  [
    "a feed that ends",
    { type: "text/event-stream", body: ":\n\n" },
    "ended the feed before sending anything",
  ],
])("`tandem jobs watch` fails if the server responds with %s", async (_, given, sentence) => {
  answer = given;
  expect(await tandem("jobs watch")).toEqual({
    code: 1,
    output: "",
    errors: `tandem: the server ${sentence}; is this a Tandem server?\n`,
  });
});

const FOREIGN = "tandem: unexpected response: expected ";

test.each([
  ["jobs list"],
  ["jobs failing"],
  ["jobs show a"],
  ["jobs runs a"],
  ["jobs failures a"],
  ["jobs pause a"],
  ["jobs retry-failures --all"],
  ["nodes list"],
  ["nodes drain a"],
  ["nodes drain _local"],
  ["nodes undrain a"],
  ["endpoints"],
  ["config list"],
  ["config get a b"],
  ["config set a b c"],
  ["shares list"],
  ["shares usage"],
  ["budgets list"],
  ["budgets remove a"],
  ["rules list"],
  ["rules show a"],
  ["rules delete a"],
  ["secrets status"],
  ["secrets rotate"],
  ["move --from http://127.0.0.2:1"],
])("if a server other than Tandem responds, the error says so: tandem %s", async (command) => {
  const from = command.replace("127.0.0.2:1", url.replace("http://127.0.0.1", "localhost"));
  // `config list` accepts `{}`, because one section, or the set of all sections, may be empty.
  answer = { body: command.startsWith("config") || command === "jobs list" ? "null" : "{}" };
  const { code, output, errors } = await tandem(from);
  expect([code, output, errors.startsWith(FOREIGN)], errors).toEqual([1, "", true]);
});

test("if a response contains invalid rows, the error asks whether the server is a Tandem server", async () => {
  answer = { body: '{"jobs":[null]}' };
  const { code, errors } = await tandem("jobs list");
  expect([code, errors]).toEqual([
    1,
    `${FOREIGN}the members that the command prints; is this a Tandem server?\n`,
  ]);
});

test.each([["null"], ["[]"], ["{}"], ['{"error":7}'], ["7"]])(
  "an error response without a body is reported by its status: %s",
  async (body) => {
    answer = { status: 500, body };
    expect(await tandem("jobs list")).toEqual({
      code: 1,
      output: "",
      errors: "tandem: the server responded with 500 but no reason; is this a Tandem server?\n",
    });
  },
);
