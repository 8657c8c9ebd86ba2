import { expect, test } from "vitest";
import type { CredentialSources } from "../server/credentials.ts";
import { sidesOf, withCredentials } from "./endpoint-credentials.ts";

const NONE: CredentialSources = { environment: {}, netrc: () => undefined, prompt: undefined };
const NETRC = "machine far.example login nora password from-netrc\n";

const withUser = (url: string, username: string, password: string) => ({
  url,
  auth: { basic: { username, password } },
});

test("the environment can specify a different user for each side", async () => {
  const environment = {
    TANDEM_USER: "adm",
    TANDEM_PASSWORD: "of the node",
    TANDEM_SOURCE_USER: "una",
    TANDEM_SOURCE_PASSWORD: "one",
    TANDEM_TARGET_PASSWORD: "two",
  };
  const url = "http://far.example/db";
  expect(
    await withCredentials(sidesOf(url, "http://anna@far.example/{db}", {}), {
      ...NONE,
      environment,
    }),
  ).toEqual({
    source: withUser(url, "una", "one"),
    target: withUser("http://far.example/{db}", "anna", "two"),
  });
  const without = sidesOf(url, "no-url", {});
  expect(await withCredentials(without, { ...NONE, environment: {} })).toEqual({
    source: url,
    target: "no-url",
  });
});

test("a password in .netrc is used for its host and user, unless the URL contains a password", async () => {
  const sources = { ...NONE, netrc: () => NETRC };
  const given = "http://una:secret@far.example/db";
  const sides = sidesOf("https://far.example:6984/db", given, {});
  expect(await withCredentials(sides, sources)).toEqual({
    source: withUser("https://far.example:6984/db", "nora", "from-netrc"),
    target: given,
  });
  const target = "http://a.example/b";
  const others = await withCredentials(sidesOf("http://near.example/a", target, {}), sources);
  expect(await withCredentials(sidesOf("http://una@a.example/b", target, {}), NONE)).toEqual({
    source: "http://una@a.example/b",
    target: "http://a.example/b",
  });
  expect(others).toEqual({ source: "http://near.example/a", target: "http://a.example/b" });
});
