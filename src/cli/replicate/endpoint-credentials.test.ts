import { expect, test } from "vitest";
import type { CredentialSources } from "../server/credentials.ts";
import { withCredentials } from "./endpoint-credentials.ts";

const NONE: CredentialSources = { environment: {}, netrc: () => undefined, prompt: undefined };
const NETRC = "machine far.example login nora password from-netrc\n";

const withUser = (url: string, username: string, password: string) => ({
  url,
  auth: { basic: { username, password } },
});

test("each side has its own user in the environment", async () => {
  const environment = {
    TANDEM_USER: "adm",
    TANDEM_PASSWORD: "of the node",
    TANDEM_SOURCE_USER: "una",
    TANDEM_SOURCE_PASSWORD: "one",
    TANDEM_TARGET_PASSWORD: "two",
  };
  const url = "http://far.example/db";
  expect(
    await withCredentials(url, "http://anna@far.example/{db}", { ...NONE, environment }),
  ).toEqual({
    source: withUser(url, "una", "one"),
    target: withUser("http://far.example/{db}", "anna", "two"),
  });
  expect(await withCredentials(url, "no-url", { ...NONE, environment: {} })).toEqual({
    source: url,
    target: "no-url",
  });
});

test("the password of .netrc is used for its host and user, unless the URL has one", async () => {
  const sources = { ...NONE, netrc: () => NETRC };
  const given = "http://una:secret@far.example/db";
  expect(await withCredentials("https://far.example:6984/db", given, sources)).toEqual({
    source: withUser("https://far.example:6984/db", "nora", "from-netrc"),
    target: given,
  });
  const others = await withCredentials("http://near.example/a", "http://a.example/b", sources);
  expect(await withCredentials("http://una@a.example/b", "http://a.example/b", NONE)).toEqual({
    source: "http://una@a.example/b",
    target: "http://a.example/b",
  });
  expect(others).toEqual({ source: "http://near.example/a", target: "http://a.example/b" });
});
