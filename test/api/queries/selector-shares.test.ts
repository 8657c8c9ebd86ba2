/**
 * Selectors evaluated in threads. The evaluation time is charged to the user and the database. The
 * evaluation stops when the client disconnects.
 */
import { expect, test } from "vitest";
import type { SelectorCall } from "../../../src/databases/index.ts";
import { openApi } from "../api.fixture.ts";

/**
 * Opens an API with a document long enough to be matched in a thread. A function that records its
 * calls replaces the thread.
 */
async function openLong() {
  const user = { name: "eve", roles: ["_admin"], isAdmin: true };
  const calls: SelectorCall[] = [];
  const opened = await openApi({ user });
  const { functions } = opened.parts;
  let arrive = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const sandbox = {
    call: functions.sandbox.call.bind(functions.sandbox),
    matches: async (call: SelectorCall): Promise<boolean> => {
      calls.push(call);
      arrive();
      return new Promise((_, reject) => {
        call.signal?.addEventListener("abort", () => reject(call.signal?.reason));
      });
    },
  };
  const { kv, databases, attachments, indexes } = opened.parts;
  const api = await openApi({
    user,
    parts: { kv, databases, attachments, indexes, functions: { ...functions, sandbox } },
  });
  await api.ask("PUT /films");
  await api.ask("PUT /films/long", { body: { text: "x".repeat(1_000_000) } });
  return { api, calls, arrived };
}

test.each([
  ["_find", "POST /films/_find"],
  ["_changes", "POST /films/_changes?filter=_selector"],
  ["a continuous feed", "POST /films/_changes?filter=_selector&feed=continuous"],
])(
  "the selector of %s is charged to the user and the database, and stops when the client disconnects",
  async (_, request) => {
    const { api, calls, arrived } = await openLong();
    const leaving = new AbortController();
    const body = { selector: { text: { $regex: "(a|b)*c" } } };
    const answer = api.ask(request, { body, signal: leaving.signal }).catch(() => "ended");
    await arrived;
    leaving.abort(new Error("The client has disconnected"));
    await answer;
    expect(calls.map(({ share }) => share)).toEqual([{ user: "eve", database: "films" }]);
  },
);
