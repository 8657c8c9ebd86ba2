/** Masks the secrets of a rule for display; `withStoredSecrets` restores them. Pure. */
import { maskCredentials } from "../../protocol/index.ts";
import { MASK } from "../documents/masked-secrets.ts";
import { isObject, type Members } from "../request/parse-fields.ts";
import { isHeaderReference, isReference } from "../request/references.ts";

const ENDPOINTS = ["source", "target"];
const PROXIES = ["proxy", "source_proxy", "target_proxy"];
/** Members of `auth` that are not masked, because they are not secret. */
const NO_SECRETS = [
  "username",
  "token_url",
  "client_id",
  "auth_method",
  "scope",
  "audience",
  "resource",
];

export function maskedRule(members: Members): Members {
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => [name, maskedMember(name, value)]),
  );
}

function maskedMember(name: string, value: unknown): unknown {
  if (PROXIES.includes(name)) return maskedUrl(value);
  if (!ENDPOINTS.includes(name)) return value;
  if (!isObject(value)) return maskedUrl(value);
  const shown: Record<string, unknown> = { ...value, url: maskedUrl(value.url) };
  if (value.auth !== undefined) shown.auth = maskedAuth(value.auth);
  if (isObject(value.headers)) shown.headers = maskedHeaders(value.headers);
  if (value.password !== undefined) shown.password = maskedText(value.password);
  return shown;
}

function maskedUrl(value: unknown): unknown {
  return typeof value === "string" ? maskCredentials(value) : value;
}

/**
 * Returns the mask for a secret. A reference is returned unchanged, because it reveals no secret.
 */
function maskedText(value: unknown): unknown {
  return typeof value === "string" && isReference(value) ? value : MASK;
}

function maskedAuth(value: unknown): unknown {
  if (!isObject(value)) return maskedText(value);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      NO_SECRETS.includes(name) ? member : maskedAuth(member),
    ]),
  );
}

function maskedHeaders(headers: Members): Members {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === "string" && isHeaderReference(value) ? value : MASK,
    ]),
  );
}
