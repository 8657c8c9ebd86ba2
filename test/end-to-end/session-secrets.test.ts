/** Two processes share a store. The session secret is changed in one of the processes. */
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";

const processes = new Processes();
afterAll(() => processes.close());

const BASIC = { Authorization: `Basic ${btoa("root:secret")}` };

async function logIn({ url }: TandemProcess): Promise<string> {
  const body = new URLSearchParams({ name: "root", password: "secret" });
  const { headers } = await fetch(`${url}/_session`, { method: "POST", body });
  return (headers.get("set-cookie") ?? "").split(";")[0] ?? "";
}

async function nameIn({ url }: TandemProcess, cookie: string): Promise<string | null> {
  const answer = await fetch(`${url}/_session`, { headers: { cookie } });
  return ((await answer.json()) as { userCtx: { name: string | null } }).userCtx.name;
}

/** Changes the setting on one node, without saving it in the file that both nodes share. */
async function configure({ url }: TandemProcess, key: string, value: string): Promise<void> {
  const answer = await fetch(`${url}/_node/_local/_config/chttpd_auth/${key}`, {
    method: "PUT",
    body: JSON.stringify(value),
    headers: { ...BASIC, "X-Couch-Persist": "false" },
  });
  expect(answer.status).toBe(200);
}

test("sessions of the old and of the new secret are valid on both nodes until former secrets are rejected", async () => {
  const directory = processes.directory();
  const ini = "[admins]\nroot = secret\n[chttpd_auth]\nsecret = old\n";
  const one = await processes.open({ directory, ini });
  const other = await processes.open({ directory, ini });
  const before = await logIn(one);
  await configure(one, "secret", "new");
  const after = await logIn(one);
  await other.events.event("sessions.secrets-changed");
  for (const node of [one, other]) {
    expect([await nameIn(node, before), await nameIn(node, after)]).toEqual(["root", "root"]);
  }
  await configure(one, "accept_former_secrets", "false");
  expect([await nameIn(one, before), await nameIn(one, after)]).toEqual([null, "root"]);
  await other.onceAnswered(
    () => nameIn(other, after),
    (name) => name === null,
  );
  expect(await nameIn(other, before)).toBe("root");
});
