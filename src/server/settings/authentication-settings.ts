/** Settings of authentication and of the API, with CouchDB's names, read on each use. */
import { BlockList } from "node:net";
import { type ApiSettings, UUID_ALGORITHMS, UUID_FORMATS } from "../../api/index.ts";
import {
  listed,
  liveSettings,
  type Parsed,
  type SettingsOf,
  type SettingTexts,
  sectionOf,
  type Values,
} from "./settings.ts";
import { parseProxies } from "./trusted-proxies.ts";

const HANDLERS = ["cookie", "default", "proxy", "jwt"];
const SAME_SITE = ["None", "Lax", "Strict"] as const;
const HASHES = ["sha", "sha224", "sha256", "sha384", "sha512"] as const;

/** Maximum number of ids per `_uuids` request. Generating more would block other requests. */
const UUID_COUNT_MAX = 100_000;

const COMPRESSIBLE_TYPES = [
  "text/*",
  "application/javascript",
  "application/json",
  "application/xml",
];

const tandem = sectionOf("tandem");
const couchdb = sectionOf("couchdb");
const chttpd = sectionOf("chttpd");
/** Settings of `[chttpd]` that older CouchDB versions had in `[httpd]`. */
const server = sectionOf("chttpd", { former: "httpd" });
const auth = sectionOf("chttpd_auth", { former: "couch_httpd_auth" });
const jwt = sectionOf("jwt_auth");
const uuids = sectionOf("uuids");
const attachments = sectionOf("attachments");

const REQUIRE_VALID_USER = chttpd.flag("require_valid_user", false, {
  meaning: "whether requests without a user are rejected",
});

export const AUTHENTICATION_SETTINGS = {
  trustedProxies: tandem.parsed<BlockList>("trusted_proxies", {
    default: new BlockList(),
    defaultWords: "none",
    meaning: "comma-separated addresses and ranges of trusted proxies ([lockout](#login-lockout))",
    parse(text) {
      const proxies = parseProxies(listed(text));
      if (proxies instanceof BlockList) return { value: proxies };
      return { expected: "addresses and ranges such as 10.0.0.0/8", at: proxies.wrong };
    },
  }),
  peerHeader: chttpd.parsed<string | undefined>("peer_header", {
    default: undefined,
    defaultWords: "none",
    meaning:
      "header with the client's address, trusted only from `trusted_proxies` or, if that is unset, from everyone, as in CouchDB",
    parse(text) {
      if (/^[!#$%&'*+.^`|~\w-]+$/.test(text)) return { value: text.toLowerCase() };
      return { expected: "the name of a header, such as X-Couch-Client-IP" };
    },
  }),
  handlers: chttpd.parsed<readonly string[]>("authentication_handlers", {
    default: ["cookie", "default"],
    defaultText:
      "{chttpd_auth, cookie_authentication_handler}, {chttpd_auth, default_authentication_handler}",
    meaning: "handlers (`cookie`, `default`, `proxy`, `jwt`), in the order in which they are tried",
    parse: parseHandlers,
  }),
  requireValidUser: REQUIRE_VALID_USER,
  requireValidUserExceptForUp: chttpd.flag("require_valid_user_except_for_up", false, {
    meaning: "like `require_valid_user`, but not for `/_up`",
  }),
  timeoutSec: auth.integer("timeout", 600, {
    unit: "s",
    meaning: "how long a session lasts without a request",
  }),
  allowsPersistentCookies: auth.flag("allow_persistent_cookies", true, {
    meaning: "whether browsers keep the session cookie after closing",
  }),
  cookieDomain: auth.text("cookie_domain", undefined, {
    meaning: "attribute of the session cookie",
  }),
  sameSite: auth.parsed<(typeof SAME_SITE)[number] | undefined>("same_site", {
    default: undefined,
    defaultWords: "not sent",
    values: "`none`, `lax`, `strict`",
    meaning: "SameSite attribute; browsers accept `none` only over TLS",
    parse(text) {
      const value = SAME_SITE.find((name) => name.toLowerCase() === text.toLowerCase());
      return value === undefined ? { expected: "none, lax or strict" } : { value };
    },
  }),
  forwardedTlsHeader: server.text("x_forwarded_ssl", "X-Forwarded-Ssl", {
    meaning: "header that a proxy sets to `on` for TLS",
  }),
  forwardedProtocolHeader: server.text("x_forwarded_proto", "X-Forwarded-Proto", {
    meaning: "header that a proxy sets to `https` for TLS",
  }),
  secret: auth.text("secret", undefined, {
    defaultWords: "generated once",
    meaning: "the key that signs sessions",
  }),
  acceptsFormerSecrets: auth.flag("accept_former_secrets", true, {
    meaning: "whether sessions survive a change of `secret` ([keys](security.md#keys))",
  }),
  hashAlgorithms: auth.someOf("hash_algorithms", ["sha256", "sha"], HASHES, {
    meaning: "algorithms accepted for sessions; the first signs new ones",
  }),
  proxyUsesSecret: auth.flag("proxy_use_secret", false, {
    meaning: "whether the proxy handler requires a token",
  }),
  proxyUserHeader: auth.text("x_auth_username", "X-Auth-CouchDB-UserName", {
    meaning: "header with the user, for the proxy handler",
  }),
  proxyRolesHeader: auth.text("x_auth_roles", "X-Auth-CouchDB-Roles", {
    meaning: "header with the roles, for the proxy handler",
  }),
  proxyTokenHeader: auth.text("x_auth_token", "X-Auth-CouchDB-Token", {
    meaning: "header with the token, for the proxy handler",
  }),
  requiredClaims: jwt.text("required_claims", "exp", {
    meaning: 'required claims of a token, such as `exp, nbf, {iss, "name"}`',
  }),
  publicMembers: auth.list("public_fields", [], {
    defaultWords: "none",
    meaning: "comma-separated `_users` document fields that other users may read",
  }),
  rolesClaimName: jwt.text("roles_claim_name", "_couchdb.roles", {
    meaning: "claim with the roles",
  }),
  rolesClaimPath: jwt.text("roles_claim_path", undefined, {
    meaning: "path to the roles in nested claims",
  }),
};
export type AuthenticationSettings = Values<typeof AUTHENTICATION_SETTINGS>;

export const API_SETTINGS: SettingsOf<ApiSettings> = {
  adminOnlyAllDatabases: chttpd.flag("admin_only_all_dbs", true, {
    meaning: "whether only administrators may list the databases",
  }),
  plusIsSpace: chttpd.flag("decode_plus_to_space", true, {
    meaning: "whether `+` in a path is decoded as a space",
  }),
  forwardedHostHeader: server.text("x_forwarded_host", "X-Forwarded-Host", {
    meaning: "header in which a proxy passes the requested host",
  }),
  challenge: chttpd.text("WWW-Authenticate", undefined, {
    defaultWords: "none",
    meaning: "value of the header `WWW-Authenticate` in 401 responses",
  }),
  requireValidUser: REQUIRE_VALID_USER,
  uuidAlgorithm: uuids.choice("algorithm", "sequential", UUID_ALGORITHMS, {
    meaning:
      "`sequential`: 26 random and 6 increasing hex digits; `random`: 32 random digits; `utc_random`, `utc_id`: 14 digits of microseconds since 1970, then 18 random ones or the suffix; `uuid_v7`, `uuid_v4`: RFC 9562",
  }),
  uuidFormat: uuids.choice("format", "base_16", UUID_FORMATS, {
    meaning: "text format of `uuid_v7` and `uuid_v4`",
  }),
  uuidSuffix: uuids.text("utc_id_suffix", "", {
    meaning: "suffix of the ids of `utc_id`; must differ between nodes",
  }),
  uuidCountMax: uuids.integer("max_count", 1_000, {
    max: UUID_COUNT_MAX,
    meaning: "maximum number of ids per `_uuids` request",
  }),
  usersListed: auth.flag("users_db_public", false, {
    meaning: "whether non-administrators may list the documents of `_users` with `_all_docs`",
  }),
  usersSecurityEditable: couchdb.flag("users_db_security_editable", false, {
    meaning: "whether the security object of `_users` can be changed",
  }),
  changesTimeoutMs: server.integer("changes_timeout", 60_000, {
    unit: "ms",
    meaning: "time that a feed waits for a change",
  }),
  documentBytesMax: couchdb.integer("max_document_size", 8 * 1024 * 1024, {
    unit: "bytes",
    meaning: "maximum size of a document without attachments; capped by the store's limit",
  }),
  requestBytesMax: server.integer("max_http_request_size", 4_294_967_296, {
    unit: "bytes",
    meaning: "maximum size of a request's body",
  }),
  compressesResponses: tandem.flag("compress_responses", true, {
    meaning: "whether JSON responses are compressed with gzip",
  }),
  compressibleTypes: attachments.list("compressible_types", COMPRESSIBLE_TYPES, {
    meaning: "types of uploaded attachments that are stored compressed",
  }),
  compressionLevel: attachments.integer("compression_level", 8, {
    min: 0,
    max: 9,
    meaning:
      "gzip level from 1 (fast) to 9 (small); 0: none. Revision ids depend on the level, so use the same on all nodes",
  }),
  infoCountMax: chttpd.integer("max_db_number_for_dbs_info_req", 100, {
    unit: "databases",
    meaning: "maximum number of databases per request to `_dbs_info`",
  }),
  requestsMax: tandem.integer("max_requests", 500, {
    unit: "requests",
    meaning: "maximum number of concurrent requests",
  }),
  bodyMemoryBytesMax: tandem.integer("max_body_memory", 268_435_456, {
    min: 67_108_864,
    unit: "bytes",
    meaning:
      "memory limit of each node for decompressed request bodies ([budgets](security.md#budgets))",
  }),
  waitingRequestsMax: tandem.integer("max_waiting_requests", 1_500, {
    min: 0,
    unit: "requests",
    meaning: "maximum number of waiting requests ([overload](api/README.md)); 0: no waiting",
  }),
  maintenanceMode: couchdb.choice("maintenance_mode", "false", ["false", "true", "nolb"], {
    meaning: "with `true` or `nolb`, `GET /_up` responds with 404, for load balancers",
  }),
};

export function authenticationSettings(texts: SettingTexts): AuthenticationSettings {
  return liveSettings(texts, AUTHENTICATION_SETTINGS);
}

export function apiSettings(texts: SettingTexts): ApiSettings {
  return liveSettings(texts, API_SETTINGS);
}

/**
 * Converts `{chttpd_auth, cookie_authentication_handler}, …` to the short names of the handlers.
 */
function parseHandlers(text: string): Parsed<readonly string[]> {
  const names = [...text.matchAll(/\{\s*\w+\s*,\s*(\w+?)_authenti(?:fi)?cation_handler\s*\}/g)];
  const handlers = names.map((match) => match[1] as string);
  if (handlers.length > 0 && handlers.every((name) => HANDLERS.includes(name))) {
    return { value: handlers };
  }
  return { expected: `{chttpd_auth, NAME_authentication_handler} with ${HANDLERS.join(", ")}` };
}
