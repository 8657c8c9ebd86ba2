/**
 * A server rejects a password, from an operator's view: the account is listed with the reason and
 * the time of the next attempt. Jobs log in immediately after the password is replaced.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Processes } from "../support/open-process.ts";
import { tandem as run } from "../support/tandem-command.ts";

const ADMIN = "admin:admin-password";
const JOBS = 3;

const processes = new Processes();
afterAll(() => processes.close());

async function ask(url: string, method: string, body?: unknown) {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json", authorization: `Basic ${btoa(ADMIN)}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
  const json: any = text.startsWith("{") ? JSON.parse(text) : undefined;
  return { status: response.status, text, json };
}

test("a rejected login is listed until an operator replaces the password", async () => {
  const ini = "[admins]\nadmin = admin-password\n[replicator]\nmin_backoff_penalty_sec = 3600\n";
  const far = await processes.openHere({ ini });
  await ask(`${far.url}/_users`, "PUT");
  for (const name of ["jan", "eva"]) {
    const user = { name, password: "right-password", roles: [], type: "user" };
    await ask(`${far.url}/_users/org.couchdb.user:${name}`, "PUT", user);
  }
  await ask(`${far.url}/films`, "PUT");
  const members = { names: ["jan", "eva"], roles: [] };
  await ask(`${far.url}/films/_security`, "PUT", { admins: { names: [], roles: [] }, members });
  await ask(`${far.url}/films/a`, "PUT", { title: "A" });
  const node = await processes.openHere({ ini });
  const here = (path: string, method = "GET", body?: unknown) =>
    ask(`${node.url}${path}`, method, body);
  for (let number = 0; number < JOBS; number++) {
    await here(`/_replicator/wrong-${number}`, "PUT", {
      source: `${far.url.replace("://", "://jan:wrong-password@")}/films`,
      target: `copy-${number}`,
      create_target: true,
    });
  }
  // Every job waits for the account, although not every job has tried to log in.
  const { json } = await node.onceAnswered(
    () => here("/_tandem/logins"),
    ({ json: page }) => page.logins[0]?.jobs === JOBS,
  );
  const gate = {
    ...{ host: far.url, username: "jan", status: "refused" },
    reason: "401 unauthorized: Name or password is incorrect.",
  };
  expect(json).toMatchObject({ total_rows: 1, logins: [gate] });
  const job = (await here("/_tandem/jobs/_replicator%2Fwrong-0")).json;
  expect(job).toMatchObject({ held_back_by: "login", login_gate: gate });
  const [group] = (await here("/_tandem/failing")).json.groups;
  const login = { host: far.url, username: "jan" };
  expect(group).toMatchObject({ class: "unauthorized", count: JOBS, login, login_gate: gate });
  const metrics = (await here("/_node/_local/_prometheus")).text;
  expect(metrics).toMatch(/^tandem_logins_gated\{status="refused"\} 1$/m);
  expect(metrics).toMatch(/^tandem_logins_attempts\S*\{verdict="refused"\} 1$/m);
  expect(metrics).not.toContain("jan");

  const server = node.url.replace("://", `://${ADMIN}@`);
  const tandem = async (args: readonly string[]) => {
    const { code, output, errors } = await run([...args, "--server", server]);
    if (code !== 0) throw new Error(errors);
    return output;
  };
  const words = (text: string) => text.replace(/\s+/g, " ");
  expect(words(await tandem(["jobs", "logins"]))).toContain("Name or password is incorrect");
  const waits = /next login to \S+ as "jan" not before \S+: the login was rejected/;
  expect(words(await tandem(["jobs", "show", "_replicator/wrong-0"]))).toMatch(waits);
  const failing = words(await tandem(["jobs", "failing"]));
  expect(failing).toMatch(waits);
  expect(failing.replaceAll("\\ ", "")).toContain(
    `tandem secrets replace --failing --side source --host ${far.url} --username jan`,
  );
  const file = join(processes.directory(), "password");
  const replace = (password: string) => {
    writeFileSync(file, `${password}\n`);
    const account = ["--host", far.url, "--username", "jan", "--side", "source"];
    return tandem(["secrets", "replace", "--failing", ...account, "--password-file", file]);
  };
  // A wrong password is tried once. Then the jobs wait again.
  expect(await replace("another-password")).toContain(`${JOBS} changed, 0 refused`);
  await node.onceAnswered(
    () => here("/_node/_local/_prometheus"),
    ({ text }) => /^tandem_logins_attempts\S*\{verdict="refused"\} 2$/m.test(text),
  );
  await node.onceAnswered(
    () => here("/_tandem/logins"),
    ({ json: page }) => page.logins[0]?.jobs === JOBS,
  );
  expect(await replace("right-password")).toContain(`${JOBS} changed, 0 refused`);
  for (let number = 0; number < JOBS; number++) {
    await node.onceAnswered(
      () => here(`/_scheduler/docs/_replicator/wrong-${number}`),
      ({ json: shown }) => shown.state === "completed",
    );
  }
  const basic = { username: "admin", password: "wrong-password" };
  await here("/_tandem/rules/films", "PUT", {
    ...{ source: { url: `${far.url}/`, auth: { basic } }, target: "all-{db}" },
    ...{ databases: ["films"] },
  });
  await node.onceAnswered(
    () => here("/_node/_local/_prometheus"),
    ({ text }) => /^tandem_rules_failing 1$/m.test(text),
  );
  const listed = words(await tandem(["jobs", "failing"]));
  expect(listed).toMatch(
    /no failing jobs Rules whose source cannot be listed: .* films unauthorized/,
  );
  writeFileSync(file, "admin-password\n");
  const account = ["--host", far.url, "--username", "admin", "--password-file", file];
  const replaced = await tandem(["secrets", "replace", "--failing", ...account]);
  expect(replaced).toContain("and the rule films; 0 changed");
  await node.onceAnswered(
    () => here("/_tandem/rules/films"),
    ({ json: { status } }) => status.jobs === 1 && status.last_error === null,
  );
  const noLogins = { total_rows: 0, logins: [] };
  expect((await here("/_tandem/logins")).json).toEqual(noLogins);

  // Once the password is corrected in the job's document, the account is no longer listed. The
  // account is `eva` rather than `jan`, whose login attempts are spread over a minute.
  const source = (password: string) => `${far.url.replace("://", `://eva:${password}@`)}/films`;
  const copy = { target: "copy", create_target: true };
  await here("/_replicator/typo", "PUT", { source: source("typing-error"), ...copy });
  await node.onceAnswered(
    () => here("/_tandem/logins"),
    ({ json: page }) => page.logins[0]?.jobs === 1,
  );
  const { _rev } = (await here("/_replicator/typo")).json;
  await here("/_replicator/typo", "PUT", { source: source("right-password"), ...copy, _rev });
  await node.onceAnswered(
    () => here("/_scheduler/docs/_replicator/typo"),
    ({ json: shown }) => shown.state === "completed",
  );
  expect((await here("/_tandem/logins")).json).toEqual(noLogins);
  const after = (await here("/_node/_local/_prometheus")).text;
  expect(after).toMatch(/^tandem_logins_gated\{status="refused"\} 0$/m);
});
