/**
 * Finds the credentials for a server: in the URL, the environment (`TANDEM_USER`,
 * `TANDEM_PASSWORD`), `~/.netrc`, or by a prompt. Every user of a machine can see the arguments of
 * all processes, so URLs with passwords are for tests only.
 */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { percentDecode } from "../../protocol/index.ts";

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

export interface CredentialSources {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Content of the `.netrc` file, if there is one. */
  readonly netrc: () => string | undefined;
  /** Prompts the user for a password; undefined without a terminal. */
  readonly prompt: ((question: string) => Promise<string>) | undefined;
  /** Prefixes of environment variables (default: `TANDEM_`), for messages. */
  readonly prefixes?: {
    /** Prefix of the variables that were used. */
    readonly used: string;
    /** Prefix to recommend: that of the variables specific to this server. */
    readonly best: string;
  };
}

/**
 * Returns the credentials from the first source that names a user, or `undefined` if there is no
 * such source. Prompts for a missing password. If the environment names a user, the password in the
 * environment is only for that user. Otherwise it is for any user.
 */
export async function findCredentials(
  { username, password, hostname, host }: URL,
  { environment, netrc, prompt }: CredentialSources,
): Promise<Credentials | undefined> {
  const { TANDEM_USER: namedUser, TANDEM_PASSWORD: namedPassword } = environment;
  const user = percentDecode(username) || namedUser;
  const isNamed = !namedUser || namedUser === user;
  const given = percentDecode(password) || (isNamed ? namedPassword : undefined);
  if (user && given) return { user, password: given };
  const noted = netrcEntry(netrc() ?? "", hostname);
  if (noted !== undefined && (!user || user === noted.user)) return noted;
  if (!user) return undefined;
  if (prompt === undefined) return { user, password: given ?? "" };
  return { user, password: await prompt(`Password of ${user} at ${host}: `) };
}

/**
 * Explanation for rejected credentials: the user that was sent, where it was specified, and where
 * it can be specified.
 */
export function describeAsker(
  { origin, username }: URL,
  credentials: Credentials | undefined,
  { environment, prefixes = { used: "TANDEM_", best: "TANDEM_" } }: CredentialSources,
): string {
  const { used, best } = prefixes;
  const where = `specify a user and password in the URL, in ${best}USER and ${best}PASSWORD, or in ~/.netrc`;
  if (credentials === undefined) return `no credentials were sent to ${origin}; ${where}`;
  const source = username ? "the URL" : environment.TANDEM_USER ? `${used}USER` : "~/.netrc";
  return `the credentials of ${credentials.user} from ${source} were sent to ${origin}; ${where}`;
}

/**
 * The entry for a machine in `.netrc`, or else the `default` entry. curl and ftp use the same
 * format.
 */
function netrcEntry(text: string, machine: string): Credentials | undefined {
  const words = withoutMacros(text).match(/\S+/g) ?? [];
  let isFor = false;
  let found: { user?: string; password?: string } = {};
  for (let index = 0; index < words.length; index++) {
    const word = words[index];
    if (word === "machine" || word === "default") {
      if (isFor) break;
      isFor = word === "default" || words[++index] === machine;
      found = {};
    } else if (word === "login") found.user = words[++index] ?? "";
    else if (word === "password") found.password = words[++index] ?? "";
    else if (word === "account") index++;
  }
  const { user, password } = found;
  return isFor && user !== undefined ? { user, password: password ?? "" } : undefined;
}

/** Removes macros, which can contain any word and end with an empty line. */
function withoutMacros(text: string): string {
  return text.replaceAll(/^\s*#.*$/gm, "").replaceAll(/\bmacdef\s[\s\S]*?(\r?\n\r?\n|$)/g, "\n");
}

/** Credential sources of this process. A prompt requires a terminal for input and output. */
export function systemCredentialSources(): CredentialSources {
  return {
    environment: process.env,
    netrc: () => {
      const file = process.env.NETRC ?? join(homedir(), ".netrc");
      try {
        return readFileSync(file, "utf8");
      } catch {
        return undefined;
      }
    },
    prompt: process.stdin.isTTY && process.stderr.isTTY ? askInSecret : undefined,
  };
}

/** Shows the prompt, but not the typed password. */
async function askInSecret(question: string): Promise<string> {
  process.stderr.write(question);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  try {
    return await lines.question("");
  } finally {
    lines.close();
    process.stderr.write("\n");
  }
}
