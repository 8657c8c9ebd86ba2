/**
 * Authentication schemes, by their names in `auth`: how each is parsed, stored in an address, and
 * applied to requests. A scheme without a login is stored as a header.
 */
import {
  basicAuthorization,
  type GrantSource,
  IAM_TOKEN_URL,
  IamToken,
  type IamTokenParts,
  SessionLogin,
} from "../../http-client/index.ts";
import type { ClientSettings } from "../replicator-config.ts";
import { endpointUrl, schemeOf } from "./endpoint-url.ts";
import { isObject, optionalString, ReplicationInvalidError } from "./parse-fields.ts";
import type { HttpAddress, ReferencePlace } from "./replication.ts";

/** Members that a scheme sets in an address. */
export interface AuthMembers extends Credentials {
  readonly headers?: { readonly authorization: string };
}

type Credentials = Pick<HttpAddress, "basic" | "iam">;

/** Server and account of a login. API keys for token services have no account name. */
export interface Account {
  readonly origin: string;
  readonly account: string;
}

export interface LoginParts extends IamTokenParts {
  readonly settings: ClientSettings;
}

export interface AuthenticationScheme {
  /** Names of the scheme in `auth`. The first name is the documented one. */
  readonly names: readonly string[];
  /** Parses the scheme's member of `auth`. Throws a ReplicationInvalidError. */
  readonly parse: (field: string, given: unknown) => AuthMembers;
  /**
   * Where the scheme keeps a secret that may be a reference; absent for a scheme that only sets a
   * header.
   */
  readonly secret?: {
    readonly place: ReferencePlace;
    readonly of: (credentials: Credentials) => string | undefined;
    readonly replaced: (credentials: Credentials, secret: string) => Credentials;
  };
  /**
   * Returns the account that the address logs in to; `undefined` for an address of another scheme.
   */
  readonly account?: (address: HttpAddress) => Account | undefined;
  /**
   * Returns how grants for an address are obtained, for example session cookies. Endpoints with the
   * same `key` share a grant.
   */
  readonly login?: (
    address: HttpAddress,
    parts: LoginParts,
  ) => { readonly key: readonly unknown[]; readonly source: GrantSource } | undefined;
  /** Headers of each request, for schemes without a login. */
  readonly headers?: (
    address: HttpAddress,
    settings: ClientSettings,
  ) => Readonly<Record<string, string>>;
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
    replaced: ({ basic }, password) =>
      basic === undefined ? {} : { basic: { ...basic, password } },
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
    basic === undefined || usesSessions ? {} : { authorization: basicAuthorization(basic) },
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
    const tokenUrl = optionalString(members, "token_url", `${field}.token_url`) ?? IAM_TOKEN_URL;
    if (!["http", "https"].includes(schemeOf(tokenUrl))) {
      throw new ReplicationInvalidError(
        `\`${field}.token_url\` must be an http:// or https:// URL`,
      );
    }
    return { iam: { apiKey, tokenUrl } };
  },
  secret: {
    place: "iam.apiKey",
    of: ({ iam }) => iam?.apiKey,
    replaced: ({ iam }, apiKey) => (iam === undefined ? {} : { iam: { ...iam, apiKey } }),
  },
  account: ({ iam }) => iam && { origin: new URL(iam.tokenUrl).origin, account: "" },
  login: ({ iam }, parts) =>
    iam && { key: ["iam", parts.connection, iam], source: new IamToken(parts, iam) },
};

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
};

export const AUTHENTICATION_SCHEMES: readonly AuthenticationScheme[] = [BASIC, IAM, BEARER];

/** Returns the server and account an address logs in to, if any. */
export function accountOf(address: HttpAddress): Account | undefined {
  return firstOf((scheme) => scheme.account?.(address));
}

/**
 * Returns how grants for an address are obtained, for example session cookies; undefined if the
 * scheme has no login.
 */
export function loginOf(address: HttpAddress, parts: LoginParts) {
  return firstOf((scheme) => scheme.login?.(address, parts));
}

/** Returns the headers of an address whose scheme has no login. */
export function authorizationOf(
  address: HttpAddress,
  settings: ClientSettings,
): Readonly<Record<string, string>> {
  return firstOf((scheme) => scheme.headers?.(address, settings)) ?? {};
}

/** Returns the secrets of an address that are not in its headers, with their locations. */
export function secretsOf(
  credentials: Credentials,
): readonly (readonly [ReferencePlace, string])[] {
  return AUTHENTICATION_SCHEMES.flatMap(({ secret }) => {
    const text = secret?.of(credentials);
    return secret === undefined || text === undefined ? [] : [[secret.place, text] as const];
  });
}

function firstOf<T>(pick: (scheme: AuthenticationScheme) => T | undefined): T | undefined {
  for (const scheme of AUTHENTICATION_SCHEMES) {
    const found = pick(scheme);
    if (found !== undefined) return found;
  }
  return undefined;
}
