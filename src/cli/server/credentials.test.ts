import { expect, test } from "vitest";
import { type CredentialSources, describeAsker, findCredentials } from "./credentials.ts";

const NETRC = `# a comment with machine and login in it
machine other.example login olga password no
macdef init
machine couch.example login macro password no

machine couch.example
  login nora
  password from-netrc
default login somebody password default-password
`;

function sources(changed: Partial<CredentialSources> = {}): CredentialSources {
  return { environment: {}, netrc: () => undefined, prompt: undefined, ...changed };
}

test.each<[string, string, Partial<CredentialSources>, object | undefined]>([
  ["no source", "http://couch.example/", {}, undefined],
  ["the URL", "http://a%40b:p%3A@couch.example/", {}, { user: "a@b", password: "p:" }],
  [
    "the environment",
    "http://couch.example/",
    { environment: { TANDEM_USER: "eve", TANDEM_PASSWORD: "env" }, netrc: () => NETRC },
    { user: "eve", password: "env" },
  ],
  [
    "the environment, for the user of the URL",
    "http://una@couch.example/",
    { environment: { TANDEM_PASSWORD: "env" } },
    { user: "una", password: "env" },
  ],
  [
    "the environment, for its user in the URL",
    "http://una@couch.example/",
    { environment: { TANDEM_USER: "una", TANDEM_PASSWORD: "env" } },
    { user: "una", password: "env" },
  ],
  [
    "the file, if the environment has another user's password",
    "http://nora@couch.example/",
    { environment: { TANDEM_USER: "eve", TANDEM_PASSWORD: "env" }, netrc: () => NETRC },
    { user: "nora", password: "from-netrc" },
  ],
  [
    "no source for the user in the URL, if the environment has another one's password",
    "http://una@couch.example/",
    { environment: { TANDEM_USER: "eve", TANDEM_PASSWORD: "env" } },
    { user: "una", password: "" },
  ],
  [
    "the file",
    "http://couch.example:5984/",
    { netrc: () => NETRC },
    { user: "nora", password: "from-netrc" },
  ],
  [
    "the file's default",
    "http://third.example/",
    { netrc: () => NETRC },
    { user: "somebody", password: "default-password" },
  ],
  [
    "a prompt, if the file has another user",
    "http://una@couch.example:5984/",
    { netrc: () => NETRC, prompt: async (question) => `answer to ${question}` },
    { user: "una", password: "answer to Password of una at couch.example:5984: " },
  ],
  ["no prompt", "http://una@couch.example/", {}, { user: "una", password: "" }],
])("credentials come from %s", async (_, url, changed, expected) => {
  expect(await findCredentials(new URL(url), sources(changed))).toEqual(expected);
});

test.each<[string, object | undefined, Partial<CredentialSources>, string]>([
  [
    "http://couch.example/",
    undefined,
    {},
    "no credentials were sent to http://couch.example; specify a user and password in",
  ],
  [
    "http://una@couch.example/",
    { user: "una" },
    {},
    "the credentials of una from the URL were sent to http://couch.example; ",
  ],
  [
    "http://couch.example/",
    { user: "nora" },
    {},
    "the credentials of nora from ~/.netrc were sent to http://couch.example; ",
  ],
  [
    "http://couch.example/",
    { user: "eve" },
    { environment: { TANDEM_USER: "eve" }, prefixes: { used: "A_", best: "B_" } },
    "from A_USER were sent to http://couch.example; specify a user and password in the URL, in B_USER and B_PASSWORD, or",
  ],
])("explains why a login at %s was rejected for %j, given %j", (url, given, changed, words) => {
  const credentials = given && { password: "p", user: "", ...given };
  const described = describeAsker(new URL(url), credentials, sources(changed));
  expect(described).toContain(words);
});
