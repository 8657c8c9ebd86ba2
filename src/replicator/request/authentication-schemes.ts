/**
 * Authentication schemes, by their names in `auth`: how each is parsed, stored in an address, and
 * applied to requests. A scheme without a login is stored as a header.
 */
import {
  basicAuthorization,
  CLIENT_AUTH_METHODS,
  type GrantSource,
  IAM_TOKEN_URL,
  iamRequest,
  type OAuthClient,
  oauthRequest,
  ReferencedToken,
  SessionLogin,
  TokenLogin,
  type TokenLoginParts,
} from "../../http-client/index.ts";
import type { ClientSettings } from "../replicator-config.ts";
import { endpointUrl, parseUrl } from "./endpoint-url.ts";
import { isObject, type Members, optionalString, ReplicationInvalidError } from "./parse-fields.ts";
import type { HttpAddress, ReferencePlace, ResolvedAddress } from "./replication.ts";

/** Members of an address that an authentication scheme sets. */
export interface AuthMembers extends Credentials {
  readonly headers?: { readonly authorization: string };
}

type Credentials = Pick<HttpAddress, "basic" | "iam" | "oauth2">;

/** Location of an OAuth client's assertion, which is always given as a reference. */
export const CLIENT_ASSERTION = "oauth2.clientAssertion";

/** Server and account of a login. `account` is empty for an API key, which has no account name. */
export interface Account {
  readonly origin: string;
  readonly account: string;
}

export interface LoginParts extends TokenLoginParts {
  readonly settings: ClientSettings;
}

export interface AuthenticationScheme {
  /** Names of the scheme in `auth`. The first name is the documented one. */
  readonly names: readonly string[];
  /** Parses the scheme's member of `auth`. Throws a ReplicationInvalidError. */
  readonly parse: (field: string, given: unknown) => AuthMembers;
  /**
   * Secret that can be a reference, and its location; absent for a scheme that only sets a header.
   */
  readonly secret?: {
    readonly place: ReferencePlace;
    readonly of: (credentials: Credentials) => string | undefined;
    /** Returns the URL of the server that receives the secret. */
    readonly url: (address: HttpAddress) => string;
    readonly replaced: (credentials: Credentials, secret: string) => Credentials;
    /**
     * Returns the identity that determines permissions: the account without its secret, or an API
     * key, which names no account. Jobs with equal identities share a watcher.
     */
    readonly identity: (credentials: Credentials) => unknown;
  };
  /**
   * Returns the account that the address logs in to; `undefined` if the address uses a different
   * scheme.
   */
  readonly account?: (address: HttpAddress) => Account | undefined;
  /**
   * Returns a source of grants (for example, of session cookies) for an address; `undefined` if the
   * address uses a different scheme or needs no login. Addresses with the same `key` share a grant.
   */
  readonly login?: (
    address: ResolvedAddress,
    parts: LoginParts,
  ) => { readonly key: readonly unknown[]; readonly source: GrantSource } | undefined;
  /**
   * Returns the headers for each request; `undefined` if the address uses a different scheme or
   * needs a login.
   */
  readonly headers?: (
    address: HttpAddress,
    settings: ClientSettings,
  ) => Readonly<Record<string, string>> | undefined;
}

const BASIC: AuthenticationScheme = {
  names: ["basic"],
  parse(field, given) {
    const { username, password } = isObject(given) ? given : {};
    if (typeof username !== "string" || typeof password !== "string") {
      throw new ReplicationInvalidError(
        `\`${field}\` must be an object with the strings \`username\` and \`password\``,
      );
    }
    return { basic: { username, password } };
  },
  secret: {
    place: "basic.password",
    of: ({ basic }) => basic?.password,
    url: ({ url }) => url,
    replaced: ({ basic }, password) =>
      basic === undefined ? {} : { basic: { ...basic, password } },
    identity: ({ basic }) => basic?.username,
  },
  account: (address) =>
    address.basic && { origin: endpointUrl(address).origin, account: address.basic.username },
  login(address, parts) {
    const { basic } = address;
    if (basic === undefined || !parts.settings.usesSessions) return undefined;
    const { origin } = endpointUrl(address);
    const source = new SessionLogin(parts, origin, basic);
    return { key: ["session", origin, parts.connection, basic], source };
  },
  headers: ({ basic }, { usesSessions }) =>
    basic === undefined || usesSessions ? undefined : { authorization: basicAuthorization(basic) },
};

/** The scheme has two names: Cloudant uses `iam`, and IBM `ibm`. */
const IAM: AuthenticationScheme = {
  names: ["iam", "ibm"],
  parse(field, given) {
    const members = isObject(given) ? given : {};
    const apiKey = members.api_key ?? members.apikey;
    if (typeof apiKey !== "string" || apiKey === "") {
      throw new ReplicationInvalidError(
        `\`${field}\` must be an object with the string \`api_key\``,
      );
    }
    return { iam: { apiKey, tokenUrl: tokenUrlOf(field, members) ?? IAM_TOKEN_URL } };
  },
  secret: {
    place: "iam.apiKey",
    of: ({ iam }) => iam?.apiKey,
    url: ({ iam, url }) => iam?.tokenUrl ?? url,
    replaced: ({ iam }, apiKey) => (iam === undefined ? {} : { iam: { ...iam, apiKey } }),
    identity: ({ iam }) => iam,
  },
  account: ({ iam }) => iam && { origin: new URL(iam.tokenUrl).origin, account: "" },
  login: ({ iam }, parts) =>
    iam && {
      key: ["iam", parts.connection, iam],
      source: new TokenLogin(parts, iam.tokenUrl, () => iamRequest(iam)),
    },
};

/** Members of `auth.oauth2` other than `token_url`, by their names in an OAuthClient. */
const OAUTH_MEMBERS = {
  clientId: "client_id",
  clientSecret: "client_secret",
  clientAssertion: "client_assertion",
  authMethod: "auth_method",
  scope: "scope",
  audience: "audience",
  resource: "resource",
} as const;
const OAUTH_NAMES: readonly string[] = ["token_url", ...Object.values(OAUTH_MEMBERS)];
/** Maximum length of each member of `auth.oauth2`. */
const OAUTH_LENGTH_MAX = 8192;

const OAUTH2: AuthenticationScheme = {
  names: ["oauth2"],
  parse(field, given) {
    if (!isObject(given)) {
      throw new ReplicationInvalidError(`\`${field}\` must be an object with \`token_url\``);
    }
    const unknown = Object.keys(given).find((name) => !OAUTH_NAMES.includes(name));
    if (unknown !== undefined) {
      const names = OAUTH_NAMES.join(", ");
      throw new ReplicationInvalidError(`\`${field}.${unknown}\` is not known: use ${names}`);
    }
    const tokenUrl = tokenUrlOf(field, given);
    const entries = Object.entries(OAUTH_MEMBERS).map(
      ([member, name]) => [member, oauthText(field, name, given)] as const,
    );
    const client = Object.fromEntries(entries.filter(([, text]) => text !== undefined));
    return { oauth2: checkedClient(field, { tokenUrl, ...client }) };
  },
  secret: {
    place: "oauth2.clientSecret",
    of: ({ oauth2 }) => oauth2?.clientSecret,
    url: ({ oauth2, url }) => oauth2?.tokenUrl ?? url,
    replaced: ({ oauth2 }, clientSecret) =>
      oauth2 === undefined ? {} : { oauth2: { ...oauth2, clientSecret } },
    identity({ oauth2 }) {
      const { clientSecret: _, ...client } = oauth2 ?? {};
      return oauth2 && client;
    },
  },
  account: ({ oauth2 }) =>
    oauth2 && { origin: new URL(oauth2.tokenUrl).origin, account: oauth2.clientId },
  login: ({ oauth2, readAssertion }, parts) =>
    oauth2 && {
      key: ["oauth2", parts.connection, oauth2],
      source: new TokenLogin(parts, oauth2.tokenUrl, () => oauthRequest(oauth2, readAssertion?.())),
    },
};

function oauthText(field: string, name: string, members: Members): string | undefined {
  const text = optionalString(members, name, `${field}.${name}`);
  if (text === undefined) return undefined;
  if (text === "" || text.length > OAUTH_LENGTH_MAX || /\p{Cc}/u.test(text)) {
    throw new ReplicationInvalidError(
      `\`${field}.${name}\` must have 1 to ${OAUTH_LENGTH_MAX} characters, and no control characters`,
    );
  }
  return text;
}

/**
 * Returns the checked members of an OAuth client. Throws a ReplicationInvalidError if members are
 * missing or exclude each other.
 */
function checkedClient(
  field: string,
  given: { readonly [Name in keyof OAuthClient]?: string | undefined },
): OAuthClient {
  const { tokenUrl, clientId, clientSecret, clientAssertion, authMethod } = given;
  const refuse = (name: string, expected: string): never => {
    throw new ReplicationInvalidError(`\`${field}${name}\` must ${expected}`);
  };
  if (tokenUrl === undefined) return refuse(".token_url", "be an http:// or https:// URL");
  if (clientId === undefined) return refuse(".client_id", "be a string");
  if ((clientSecret === undefined) === (clientAssertion === undefined)) {
    return refuse("", "have either `client_secret` or `client_assertion`");
  }
  const method = CLIENT_AUTH_METHODS.find((name) => name === authMethod);
  if (authMethod !== method || (method !== undefined && clientSecret === undefined)) {
    const names = CLIENT_AUTH_METHODS.join(" or ");
    return refuse(".auth_method", `be ${names}, and requires \`client_secret\``);
  }
  if (clientAssertion !== undefined && !/^(env|file|identity):/.test(clientAssertion)) {
    return refuse(".client_assertion", "be a reference, such as identity:NAME");
  }
  return { ...given, tokenUrl, clientId } as OAuthClient;
}

/** Parses `token_url`, if it is set. */
function tokenUrlOf(field: string, members: Members): string | undefined {
  const text = optionalString(members, "token_url", `${field}.token_url`);
  if (text === undefined) return undefined;
  const url = /\s|\p{Cc}/u.test(text) ? undefined : parseUrl(text);
  const isUsable =
    url !== undefined && /^https?:$/.test(url.protocol) && url.username + url.password === "";
  if (isUsable) return text;
  throw new ReplicationInvalidError(
    `\`${field}.token_url\` must be an http:// or https:// URL without user and password`,
  );
}

const BEARER: AuthenticationScheme = {
  names: ["bearer"],
  parse(field, given) {
    const token = isObject(given) ? given.token : given;
    if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) {
      throw new ReplicationInvalidError(
        `\`${field}\` must be a token of printable ASCII characters`,
      );
    }
    return { headers: { authorization: `Bearer ${token}` } };
  },
  login(address, { clock, connection }) {
    const { authorization } = address;
    if (authorization === undefined) return undefined;
    const { written, read } = authorization;
    return {
      key: ["reference", endpointUrl(address).origin, connection, written],
      source: new ReferencedToken(clock, read),
    };
  },
};

export const AUTHENTICATION_SCHEMES: readonly AuthenticationScheme[] = [BASIC, IAM, OAUTH2, BEARER];

/** Returns the user name or OAuth client id with which an address logs in, if any. */
export function loginNameOf(address: HttpAddress): string | undefined {
  return accountOf(address)?.account || undefined;
}

/** Returns the server and account an address logs in to, if any. */
export function accountOf(address: HttpAddress): Account | undefined {
  return firstOf((scheme) => scheme.account?.(address));
}

/**
 * Returns the source of grants for an address (for example, of session cookies); undefined if the
 * address needs no login.
 */
export function loginOf(address: ResolvedAddress, parts: LoginParts) {
  return firstOf((scheme) => scheme.login?.(address, parts));
}

/** Returns the authentication headers for an address that needs no login; otherwise none. */
export function authorizationOf(
  address: HttpAddress,
  settings: ClientSettings,
): Readonly<Record<string, string>> {
  return firstOf((scheme) => scheme.headers?.(address, settings)) ?? {};
}

/** Returns the secrets of an address except those in its headers, with their locations. */
export function secretsOf(
  credentials: Credentials,
): readonly (readonly [ReferencePlace, string])[] {
  return AUTHENTICATION_SCHEMES.flatMap(({ secret }) => {
    const text = secret?.of(credentials);
    return secret === undefined || text === undefined ? [] : [[secret.place, text] as const];
  });
}

/** Returns the identity for each scheme with a secret, in the order of the schemes. */
export function identitiesOf(credentials: Credentials): readonly unknown[] {
  return AUTHENTICATION_SCHEMES.flatMap(({ secret }) =>
    secret === undefined ? [] : [secret.identity(credentials)],
  );
}

/** Returns the secret of an address; undefined if it has no secret, or only one in its headers. */
export function secretOf(credentials: Credentials): string | undefined {
  return secretsOf(credentials)[0]?.[1];
}

function firstOf<T>(pick: (scheme: AuthenticationScheme) => T | undefined): T | undefined {
  for (const scheme of AUTHENTICATION_SCHEMES) {
    const found = pick(scheme);
    if (found !== undefined) return found;
  }
  return undefined;
}
