/** API settings for tests: the default values. */
import type { ApiSettings, User } from "../../src/api/index.ts";

/** Defaults of `[chttpd]` and `[couchdb]`. */
export const SETTINGS: ApiSettings = {
  adminOnlyAllDatabases: true,
  plusIsSpace: true,
  forwardedHostHeader: "X-Forwarded-Host",
  challenge: undefined,
  requireValidUser: false,
  uuidAlgorithm: "sequential",
  uuidFormat: "base_16",
  uuidSuffix: "",
  uuidCountMax: 1_000,
  usersListed: false,
  usersSecurityEditable: false,
  changesTimeoutMs: 60_000,
  documentBytesMax: 8 * 1024 * 1024,
  requestBytesMax: 4_294_967_296,
  compressibleTypes: ["text/*", "application/javascript", "application/json", "application/xml"],
  compressionLevel: 8,
  compressesResponses: true,
  infoCountMax: 100,
  requestsMax: 500,
  waitingRequestsMax: 1_500,
  bodyMemoryBytesMax: 268_435_456,
  maintenanceMode: "false",
};

export const ADMIN: User = { name: null, roles: ["_admin"], isAdmin: true };
