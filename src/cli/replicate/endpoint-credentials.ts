/**
 * Credentials for the endpoints of `tandem replicate` and `tandem verify`, from a file with an
 * `auth` object, the environment (`TANDEM_SOURCE_USER`, …), `~/.netrc` or a prompt. They are not
 * passed as arguments, because every user of the machine can see the arguments of a process.
 */
import { maskCredentials } from "../../protocol/index.ts";
import { describeFailure, ReplicationInvalidError } from "../../replicator/index.ts";
import {
  type CredentialSources,
  describeAsker,
  findCredentials,
  systemCredentialSources,
} from "../server/credentials.ts";
import { readAuthFile } from "../server/secret-files.ts";
import { describeError } from "../terminal/describe-error.ts";

/**
 * Rejects arguments that are not URLs. The command uses no Tandem server, so an argument cannot
 * name a local database. `urls` has the values by argument name.
 */
export function checkUrls(urls: Readonly<Record<string, string>>): void {
  for (const [argument, url] of Object.entries(urls)) {
    if (/^https?:\/\//i.test(url)) continue;
    throw new ReplicationInvalidError(
      `${argument} ${maskCredentials(url)}: expected the http:// or https:// URL of a database`,
    );
  }
}

/** An endpoint as in replication documents. */
export type GivenEndpoint =
  | string
  | { readonly url: string; readonly auth: Readonly<Record<string, unknown>> };

/** Files with an `auth` object, as in replication documents. */
export interface AuthFiles {
  readonly sourceAuthFile?: string;
  readonly targetAuthFile?: string;
}

/** An endpoint of a command. */
export interface GivenSide {
  /** Part of the names of the environment variables for this side. */
  readonly name: "SOURCE" | "TARGET";
  readonly url: string;
  readonly authFile: string | undefined;
  /** Name of the option for `authFile`. */
  readonly authOption: string;
}

export interface GivenSides {
  readonly source: GivenSide;
  readonly target: GivenSide;
}

export function sidesOf(
  source: string,
  target: string,
  { sourceAuthFile, targetAuthFile }: AuthFiles,
): GivenSides {
  return {
    source: {
      ...{ name: "SOURCE", url: source },
      ...{ authFile: sourceAuthFile, authOption: "--source-auth-file" },
    },
    target: {
      ...{ name: "TARGET", url: target },
      ...{ authFile: targetAuthFile, authOption: "--target-auth-file" },
    },
  };
}

/** Both endpoints with their credentials. Prompts one after the other. */
export async function withCredentials(
  { source, target }: GivenSides,
  sources = systemCredentialSources(),
): Promise<{ readonly source: GivenEndpoint; readonly target: GivenEndpoint }> {
  return {
    source: await endpointOf(source, sources),
    target: await endpointOf(target, sources),
  };
}

/**
 * Adds the user that was sent, and where that user was specified, to the error of a rejected login.
 * Returns other errors unchanged.
 */
export async function withLoginAdvice(
  error: unknown,
  sides: Partial<GivenSides>,
): Promise<unknown> {
  if (describeFailure(error).error !== "unauthorized") return error;
  const sentence = describeError(error);
  const advice = await loginAdvice(sentence, sides);
  return advice === "" ? error : new Error(`${sentence} (${advice})`, { cause: error });
}

/**
 * For each endpoint that `message` names: the user that was sent to it, and where this user was
 * specified. Empty if the message names no endpoint.
 */
export async function loginAdvice(message: string, sides: Partial<GivenSides>): Promise<string> {
  const sources = systemCredentialSources();
  const advice = await Promise.all(
    Object.values(sides).map((side) => sideAdvice(message, side, sources)),
  );
  return [...new Set(advice.filter((text) => text !== undefined))].join("; ");
}

async function sideAdvice(
  message: string,
  { name, url, authFile }: GivenSide,
  sources: CredentialSources,
): Promise<string | undefined> {
  // Ends the URL before a placeholder: a target for several databases can contain `{db}`.
  const plain = url.replace(/\{.*$/, "");
  if (!URL.canParse(plain)) return undefined;
  const parsed = new URL(plain);
  const path = plain === url ? parsed.pathname.replace(/\/?$/, "/") : parsed.pathname;
  const address = parsed.origin + path;
  if (!message.includes(address)) return undefined;
  if (authFile !== undefined) return `the credentials of ${authFile} were sent to ${parsed.origin}`;
  const own = { ...sources, environment: environmentOf(name, sources) };
  // Avoids asking the user for the password again: the prompt returns `?`.
  const found = await findCredentials(parsed, {
    ...own,
    prompt: sources.prompt && (async () => "?"),
  });
  const prefix = `TANDEM_${name}_`;
  return describeAsker(parsed, found?.password === "" ? undefined : found, {
    ...own,
    prefixes: { used: prefix, best: prefix },
  });
}

/**
 * Environment variables of one side, under the names that `findCredentials` reads. `TANDEM_USER`
 * itself is not used, because it names a user of the Tandem server.
 */
function environmentOf(
  side: GivenSide["name"],
  { environment }: CredentialSources,
): CredentialSources["environment"] {
  return {
    TANDEM_USER: environment[`TANDEM_${side}_USER`],
    TANDEM_PASSWORD: environment[`TANDEM_${side}_PASSWORD`],
  };
}

/**
 * Returns an endpoint with its credentials. Without `authFile`, returns a `url` that is invalid or
 * contains a password unchanged.
 */
export async function endpointOf(
  { name, url, authFile, authOption }: GivenSide,
  sources = systemCredentialSources(),
): Promise<GivenEndpoint> {
  if (authFile !== undefined) {
    return { url: withoutUser(url), auth: readAuthFile(authOption, authFile) };
  }
  // A target for several databases can contain the placeholder `{db}`, which is not valid in a URL.
  const plain = url.replaceAll(/[{}]/g, "");
  if (!/^https?:\/\//i.test(url) || !URL.canParse(plain)) return url;
  const parsed = new URL(plain);
  if (parsed.password !== "") return url;
  const environment = environmentOf(name, sources);
  const found = await findCredentials(parsed, { ...sources, environment });
  // An empty password is not sent, because the server would count a failed login.
  if (found === undefined || found.password === "") return url;
  const { user: username, password } = found;
  return { url: withoutUser(url), auth: { basic: { username, password } } };
}

function withoutUser(url: string): string {
  return url.replace(/^(https?:\/\/)[^/?#]*@/i, "$1");
}
