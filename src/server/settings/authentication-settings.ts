/** Settings of authentication: `[chttpd]`, `[chttpd_auth]`, `[jwt_auth]`, with CouchDB's names, read live. */
import { BlockList } from "node:net";
import { type ApiSettings, UUID_ALGORITHMS, UUID_FORMATS } from "../../api/index.ts";
import {
  booleanSetting,
  choiceSetting,
  integerSetting,
  listSetting,
  liveSettings,
  movedSettings,
  type Setting,
  type SettingTexts,
  textSetting,
  unusable,
} from "./settings.ts";
import { parseProxies } from "./trusted-proxies.ts";

export interface AuthenticationSettings {
  /** `cookie`, `default`, `proxy`, `jwt`, in the order in which they are asked. */
  readonly handlers: readonly string[];
  readonly requireValidUser: boolean;
  readonly requireValidUserExceptForUp: boolean;
  readonly timeoutSec: number;
  readonly allowsPersistentCookies: boolean;
  readonly cookieDomain: string | undefined;
  readonly sameSite: "None" | "Lax" | "Strict" | undefined;
  /** Names of the headers by which a proxy in front says that a request came to it over TLS: `on`, and `https`. */
  readonly forwardedTlsHeader: string;
  readonly forwardedProtocolHeader: string;
  readonly secret: string | undefined;
  /** The first one signs; all are accepted. */
  readonly hashAlgorithms: readonly string[];
  readonly proxyUsesSecret: boolean;
  readonly proxyUserHeader: string;
  readonly proxyRolesHeader: string;
  readonly proxyTokenHeader: string;
  /** `exp, nbf, {iss, "name"}` */
  readonly requiredClaims: string;
  /** `public_fields`: what everybody who comes into `_users` may read of its documents. */
  readonly publicMembers: readonly string[];
  readonly rolesClaimName: string;
  readonly rolesClaimPath: string | undefined;
  /** Addresses of proxies that say in `X-Forwarded-For` for whom they ask. */
  readonly trustedProxies: BlockList;
}

/** CouchDB's sections of these settings, and those that they were in before. */
const SECTIONS = {
  now: { server: "chttpd", auth: "chttpd_auth" },
  formerly: { server: "httpd", auth: "couch_httpd_auth" },
} as const;

interface SectionNames {
  readonly server: string;
  readonly auth: string;
}

const TRUSTED_PROXIES = {
  section: "tandem",
  key: "trusted_proxies",
  read: (text: string | undefined): BlockList => {
    const { section, key } = TRUSTED_PROXIES;
    const proxies = parseProxies(listSetting(section, key, []).read(text));
    if (proxies instanceof BlockList) return proxies;
    throw unusable(TRUSTED_PROXIES, proxies.wrong, "addresses and ranges such as 10.0.0.0/8");
  },
};

const SETTINGS = movedSettings<SectionNames, AuthenticationSettings>(
  ({ server, auth }) => ({
    trustedProxies: TRUSTED_PROXIES,
    handlers: {
      section: "chttpd",
      key: "authentication_handlers",
      read: readHandlers,
      defaultText:
        "{chttpd_auth, cookie_authentication_handler}, {chttpd_auth, default_authentication_handler}",
    },
    requireValidUser: booleanSetting("chttpd", "require_valid_user", false),
    requireValidUserExceptForUp: booleanSetting(
      "chttpd",
      "require_valid_user_except_for_up",
      false,
    ),
    timeoutSec: integerSetting(auth, "timeout", 600),
    allowsPersistentCookies: booleanSetting(auth, "allow_persistent_cookies", true),
    cookieDomain: textSetting(auth, "cookie_domain", undefined),
    sameSite: sameSite(auth),
    forwardedTlsHeader: textSetting(server, "x_forwarded_ssl", "X-Forwarded-Ssl"),
    forwardedProtocolHeader: textSetting(server, "x_forwarded_proto", "X-Forwarded-Proto"),
    secret: textSetting(auth, "secret", undefined),
    hashAlgorithms: hashAlgorithms(listSetting(auth, "hash_algorithms", ["sha256", "sha"])),
    proxyUsesSecret: booleanSetting(auth, "proxy_use_secret", false),
    proxyUserHeader: textSetting(auth, "x_auth_username", "X-Auth-CouchDB-UserName"),
    proxyRolesHeader: textSetting(auth, "x_auth_roles", "X-Auth-CouchDB-Roles"),
    proxyTokenHeader: textSetting(auth, "x_auth_token", "X-Auth-CouchDB-Token"),
    requiredClaims: textSetting("jwt_auth", "required_claims", "exp"),
    publicMembers: listSetting(auth, "public_fields", []),
    rolesClaimName: textSetting("jwt_auth", "roles_claim_name", "_couchdb.roles"),
    rolesClaimPath: textSetting("jwt_auth", "roles_claim_path", undefined),
  }),
  SECTIONS,
);

/** More at once would hold up other requests. */
const UUID_COUNT_MAX = 100_000;

const COMPRESSIBLE_TYPES = [
  "text/*",
  "application/javascript",
  "application/json",
  "application/xml",
];

const API_SETTINGS = movedSettings<SectionNames, ApiSettings>(
  ({ server, auth }) => ({
    adminOnlyAllDatabases: booleanSetting("chttpd", "admin_only_all_dbs", true),
    plusIsSpace: booleanSetting("chttpd", "decode_plus_to_space", true),
    forwardedHostHeader: textSetting(server, "x_forwarded_host", "X-Forwarded-Host"),
    challenge: textSetting("chttpd", "WWW-Authenticate", undefined),
    requireValidUser: SETTINGS.requireValidUser,
    uuidAlgorithm: choiceSetting("uuids", "algorithm", "sequential", UUID_ALGORITHMS),
    uuidFormat: choiceSetting("uuids", "format", "base_16", UUID_FORMATS),
    uuidSuffix: textSetting("uuids", "utc_id_suffix", ""),
    uuidCountMax: integerSetting("uuids", "max_count", 1_000, { max: UUID_COUNT_MAX }),
    usersListed: booleanSetting(auth, "users_db_public", false),
    usersSecurityEditable: booleanSetting("couchdb", "users_db_security_editable", false),
    changesTimeoutMs: integerSetting(server, "changes_timeout", 60_000),
    documentBytesMax: integerSetting("couchdb", "max_document_size", 8 * 1024 * 1024),
    requestBytesMax: integerSetting(server, "max_http_request_size", 4_294_967_296),
    compressesResponses: booleanSetting("tandem", "compress_responses", true),
    compressibleTypes: listSetting("attachments", "compressible_types", COMPRESSIBLE_TYPES),
    compressionLevel: integerSetting("attachments", "compression_level", 8, { min: 0, max: 9 }),
    infoCountMax: integerSetting("chttpd", "max_db_number_for_dbs_info_req", 100),
    requestsMax: integerSetting("tandem", "max_requests", 500),
    bodyMemoryBytesMax: integerSetting("tandem", "max_body_memory", 268_435_456, {
      min: 67_108_864,
    }),
    waitingRequestsMax: integerSetting("tandem", "max_waiting_requests", 1_500, { min: 0 }),
    maintenanceMode: choiceSetting("couchdb", "maintenance_mode", "false", [
      "false",
      "true",
      "nolb",
    ]),
  }),
  SECTIONS,
);

/** One that both read is listed once. */
export const AUTHENTICATION_SETTINGS: readonly Setting<unknown>[] = [
  ...new Set([
    ...Object.values<Setting<unknown>>(SETTINGS),
    ...Object.values<Setting<unknown>>(API_SETTINGS),
  ]),
];

export function authenticationSettings(texts: SettingTexts): AuthenticationSettings {
  return liveSettings(texts, SETTINGS);
}

export function apiSettings(texts: SettingTexts): ApiSettings {
  return liveSettings(texts, API_SETTINGS);
}

/** `{chttpd_auth, cookie_authentication_handler}, …` */
function readHandlers(text: string | undefined): readonly string[] {
  if (text === undefined || text === "") return ["cookie", "default"];
  const names = [...text.matchAll(/\{\s*\w+\s*,\s*(\w+?)_authenti(?:fi)?cation_handler\s*\}/g)];
  const handlers = names.map((match) => match[1] as string);
  const known = ["cookie", "default", "proxy", "jwt"];
  if (handlers.length > 0 && handlers.every((name) => known.includes(name))) return handlers;
  const expected = `{chttpd_auth, NAME_authentication_handler} with ${known.join(", ")}`;
  throw unusable({ section: "chttpd", key: "authentication_handlers" }, text, expected);
}

function sameSite(section: string): Setting<AuthenticationSettings["sameSite"]> {
  const place = { section, key: "same_site" };
  return {
    ...place,
    read(text) {
      if (text === undefined || text === "") return undefined;
      const found = (["None", "Lax", "Strict"] as const).find(
        (value) => value.toLowerCase() === text.toLowerCase(),
      );
      if (found !== undefined) return found;
      throw unusable(place, text, "none, lax or strict");
    },
  };
}

function hashAlgorithms(list: Setting<readonly string[]>): Setting<readonly string[]> {
  const known = ["sha", "sha224", "sha256", "sha384", "sha512"];
  return {
    ...list,
    read(text) {
      const names = list.read(text);
      if (names.length > 0 && names.every((name) => known.includes(name))) return names;
      throw unusable(list, text ?? "", `some of ${known.join(", ")}`);
    },
  };
}
