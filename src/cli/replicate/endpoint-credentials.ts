/**
 * Credentials for the endpoints of `tandem replicate` and `tandem verify`, from the environment
 * (`TANDEM_SOURCE_USER`, …), `~/.netrc` or a prompt. The arguments of a process are visible to all
 * users of the machine.
 */
import {
  type CredentialSources,
  findCredentials,
  systemCredentialSources,
} from "../server/credentials.ts";

/** An endpoint as in replication documents. */
export type GivenEndpoint =
  | string
  | {
      readonly url: string;
      readonly auth: { readonly basic: { readonly username: string; readonly password: string } };
    };

/** Both endpoints with their credentials. Prompts one after the other. */
export async function withCredentials(
  source: string,
  target: string,
  sources = systemCredentialSources(),
): Promise<{ readonly source: GivenEndpoint; readonly target: GivenEndpoint }> {
  return {
    source: await endpointOf("SOURCE", source, sources),
    target: await endpointOf("TARGET", target, sources),
  };
}

/**
 * A URL with a password is returned unchanged, as is one that is invalid. `TANDEM_USER` is ignored,
 * because it is the user at the Tandem server.
 */
async function endpointOf(
  side: "SOURCE" | "TARGET",
  url: string,
  sources: CredentialSources,
): Promise<GivenEndpoint> {
  // The target of several databases may contain the placeholder `{db}`.
  const plain = url.replaceAll(/[{}]/g, "");
  if (!/^https?:\/\//i.test(url) || !URL.canParse(plain)) return url;
  const parsed = new URL(plain);
  if (parsed.password !== "") return url;
  const environment = {
    TANDEM_USER: sources.environment[`TANDEM_${side}_USER`],
    TANDEM_PASSWORD: sources.environment[`TANDEM_${side}_PASSWORD`],
  };
  const found = await findCredentials(parsed, { ...sources, environment });
  // An empty password would only count as a failed login.
  if (found === undefined || found.password === "") return url;
  const { user: username, password } = found;
  return {
    url: url.replace(/^(https?:\/\/)[^/?#]*@/i, "$1"),
    auth: { basic: { username, password } },
  };
}
