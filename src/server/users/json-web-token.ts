/**
 * Bearer tokens (`jwtf`, `[jwt_auth]`, `[jwt_keys]`). `jose` checks signatures and claims. The
 * settings have CouchDB's names.
 */
import { createPublicKey, type KeyObject } from "node:crypto";
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import { ProtocolError } from "../../protocol/index.ts";

export interface TokenSettings {
  readonly requiredClaims: string;
  readonly rolesClaimName: string;
  readonly rolesClaimPath: string | undefined;
}

/** Permitted algorithms by type of key, so that a public key is never used as a shared secret. */
const ALGORITHMS: Readonly<Record<string, readonly string[]>> = {
  hmac: ["HS256", "HS384", "HS512"],
  rsa: ["RS256", "RS384", "RS512"],
  ec: ["ES256", "ES384", "ES512"],
};

/** Returns the user that the token names. Throws a ProtocolError for an invalid token. */
export async function tokenUser(
  token: string,
  keys: ReadonlyMap<string, string>,
  settings: TokenSettings,
  currentDate: Date,
): Promise<{ readonly name: string; readonly roles: readonly string[] }> {
  const { names, values } = requiredClaims(settings.requiredClaims);
  let claims: JWTPayload;
  try {
    const { kid = "_default", alg = "" } = decodeProtectedHeader(token);
    const { key, algorithms } = keyOf(keys, kid, alg);
    const options = { algorithms: [...algorithms], currentDate, requiredClaims: names };
    claims = (await jwtVerify(token, key, options)).payload;
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    if (error instanceof errors.JOSEError) throw unauthorized(error.message);
    throw new ProtocolError(400, "bad_request", "Malformed token", { cause: error });
  }
  for (const [name, value] of values) {
    if (claims[name] !== value) throw unauthorized(`Invalid ${name} claim`);
  }
  if (typeof claims.sub !== "string") throw unauthorized("Token missing sub claim.");
  return { name: claims.sub, roles: rolesOf(claims, settings) };
}

function keyOf(
  keys: ReadonlyMap<string, string>,
  keyId: string,
  algorithm: string,
): { readonly key: Uint8Array | KeyObject; readonly algorithms: readonly string[] } {
  for (const [kind, algorithms] of Object.entries(ALGORITHMS)) {
    if (!algorithms.includes(algorithm)) continue;
    const text = keys.get(`${kind}:${keyId}`);
    if (text === undefined) break;
    const key =
      kind === "hmac" ? Buffer.from(text, "base64") : createPublicKey(text.replaceAll("\\n", "\n"));
    return { key, algorithms };
  }
  throw unauthorized("Unknown kid");
}

/**
 * Parses the required claims, such as `exp, {iss, "name"}`. A claim in braces must have the given
 * value.
 */
function requiredClaims(text: string): {
  readonly names: string[];
  readonly values: ReadonlyMap<string, string>;
} {
  const values = new Map<string, string>();
  const rest = text.replace(
    /\{\s*(\w+)\s*,\s*"([^"]+)"\s*\}/g,
    (_, name: string, value: string) => {
      values.set(name, value);
      return "";
    },
  );
  const names = rest.split(/[\s,]+/).filter((name) => name !== "");
  return { names: [...names, ...values.keys()], values };
}

function rolesOf(
  claims: JWTPayload,
  { rolesClaimName, rolesClaimPath }: TokenSettings,
): readonly string[] {
  const path =
    rolesClaimPath === undefined
      ? [rolesClaimName]
      : rolesClaimPath.split(/(?<!\\)\./).map((name) => name.replaceAll("\\.", "."));
  let value: unknown = claims;
  for (const name of path) {
    const isObject = typeof value === "object" && value !== null && Object.hasOwn(value, name);
    value = isObject ? (value as Record<string, unknown>)[name] : [];
  }
  const roles = typeof value === "string" ? value.split(/\s*,\s*/) : value;
  if (Array.isArray(roles) && roles.every((role) => typeof role === "string")) return roles;
  throw new ProtocolError(400, "bad_request", "Malformed token");
}

function unauthorized(reason: string): ProtocolError {
  return new ProtocolError(401, "unauthorized", reason);
}
