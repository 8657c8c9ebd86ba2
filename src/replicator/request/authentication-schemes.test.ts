import { expect, test } from "vitest";
import {
  AUTHENTICATION_SCHEMES,
  type AuthenticationScheme,
  identitiesOf,
  type LoginParts,
} from "./authentication-schemes.ts";
import { parseEndpoint } from "./parse-endpoint.ts";
import type { ResolvedAddress } from "./replication.ts";

/** Example of `auth` for each scheme, by its documented name. */
const EXAMPLES: Readonly<Record<string, unknown>> = {
  basic: { username: "ann", password: "secret" },
  iam: { api_key: "secret" },
  oauth2: { token_url: "https://t.example/", client_id: "ann", client_secret: "secret" },
  bearer: "secret",
};

test.each(AUTHENTICATION_SCHEMES)(
  "$names.0 does not apply to addresses of other schemes",
  (scheme) => {
    const others = AUTHENTICATION_SCHEMES.filter((other) => other !== scheme);
    for (const usesSessions of [true, false]) {
      for (const other of others) {
        const applied = applications(scheme, addressOf(other), usesSessions);
        expect(applied.filter((each) => each !== undefined)).toEqual([]);
      }
    }
  },
);

function addressOf({ names: [name = ""] }: AuthenticationScheme): ResolvedAddress {
  const auth = { [name]: EXAMPLES[name] };
  return parseEndpoint("source", {
    source: { url: "https://a.example/db", auth },
  }) as ResolvedAddress;
}

function applications(
  { account, headers, login, secret }: AuthenticationScheme,
  address: ResolvedAddress,
  usesSessions: boolean,
): unknown[] {
  const settings = { usesSessions } as LoginParts["settings"];
  return [
    account?.(address),
    headers?.(address, settings),
    login?.(address, { settings } as LoginParts),
    secret?.of(address),
  ];
}

test.each(AUTHENTICATION_SCHEMES.filter(({ account }) => account !== undefined))(
  "the identity of an account of $names.0 contains the account, but not its secret",
  (scheme) => {
    const address = addressOf(scheme);
    const [identity, ...others] = identitiesOf(address).filter((each) => each !== undefined);
    expect(others).toEqual([]);
    const { account } = scheme.account?.(address) ?? {};
    const text = JSON.stringify(identity);
    // An IAM API key has no account name, so the identity contains the key instead.
    expect(text).toContain(account === "" ? "secret" : account);
    expect(text.includes('"secret"')).toBe(account === "");
  },
);
