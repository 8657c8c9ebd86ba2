/** Creates and connects the parts of a node, without starting any. */
import { errorCode, type Runtime } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import { SandboxPool } from "../host/index.ts";
import { Workers } from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { Formats } from "./formats.ts";
import { clusterUuid, renewSessionSecret, SUBSPACES, sessionSecret } from "./layout.ts";
import type { EventCounts } from "./metrics/metrics.ts";
import { joinNodeParts } from "./node-parts.ts";
import { urlOf } from "./node-urls.ts";
import { type OpenedStore, STORES } from "./open-store.ts";
import { Reclaimer } from "./reclaimer.ts";
import { renewChangedSecrets } from "./secrets/changed-secrets.ts";
import { establishKeys } from "./secrets/key-record.ts";
import { Rotation } from "./secrets/rotation.ts";
import { authenticationSettings } from "./settings/authentication-settings.ts";
import { isLoopback, type ServerConfig } from "./settings/config.ts";
import {
  designFunctions,
  keepOldBodiesMs,
  securityDefault,
  timeMinMs,
} from "./settings/database-settings.ts";
import { lockoutSettings } from "./settings/lockout-settings.ts";
import { passwordSettings } from "./settings/password-settings.ts";
import { replicatorConfig } from "./settings/replicator-settings.ts";
import { Authentication } from "./users/authentication.ts";
import { LoginLockout } from "./users/login-lockout.ts";
import { SessionCookies } from "./users/session-cookies.ts";
import { SessionSecrets } from "./users/session-secrets.ts";
import { UserDirectory } from "./users/user-directory.ts";
import { usersHook } from "./users/users-hook.ts";

/** Databases that always exist, as after CouchDB's set-up. */
const SYSTEM_DATABASES = ["_replicator", "_users"];

/** A node that is assembled but not running. */
export type AssembledNode = Awaited<ReturnType<typeof assembleNode>>;

export async function assembleNode(
  runtime: Runtime,
  { kv }: OpenedStore,
  config: ServerConfig,
  counts: EventCounts,
) {
  const { configuration } = config;
  const workers = new Workers(runtime, SUBSPACES.jobs);
  const enablesAlone = config.enableFormats === "alone";
  const formats = new Formats({ runtime, kv, workers, enablesAlone });
  await formats.join();
  const ids = replicationIds(runtime, config, await clusterUuid(runtime, kv, config.serverUuid));
  const { ring: seal, source } = config.secrets;
  await establishKeys({ random: runtime.random, kv, ring: seal, source });
  const sandbox = new SandboxPool(runtime);
  const functions = designFunctions(runtime, sandbox, configuration);
  const parts = joinNodeParts({
    seal,
    runtime,
    kv,
    format: formats.stored,
    functions,
    ids,
    config: replicatorConfig(configuration),
    hooks: [
      usersHook({
        settings: authenticationSettings(configuration),
        limits: passwordSettings(configuration),
      }),
    ],
    securityDefault: securityDefault(configuration),
    keepOldBodiesMs: keepOldBodiesMs(configuration),
    timeMinMs: timeMinMs(configuration),
    nodeName: config.nodeName,
  });
  const rotation = new Rotation({
    ...parts,
    ring: seal,
    source,
    isSharedStore: STORES[config.store].isShared,
    renewOthers: async () => {
      const renewedCount = await kv.transact(
        async (tx) =>
          Number(await renewSessionSecret(tx, seal)) + Number(await renewChangedSecrets(tx, seal)),
        { whenUnknown: "retry" },
      );
      const renewedRules = await parts.replicator.rules.renewSeals();
      return renewedCount + renewedRules + configuration.renewSecrets();
    },
  });
  return {
    formats,
    rotation,
    reclaimer: new Reclaimer({ ...parts, keepOldBodiesMs: keepOldBodiesMs(configuration) }),
    runtime,
    kv,
    config,
    counts,
    parts,
    sandbox,
    functions,
    accounts: await openAccounts(runtime, kv, config, parts.databases),
    /** External URL of the node's API. It can change when the node starts to listen. */
    shown: { url: config.publicUrl ?? ids.serverUrl },
  };
}

/**
 * Returns the parts of replication ids. Replication ids must not change between starts, so they do
 * not include a port chosen by the system.
 */
function replicationIds({ digests }: Runtime, config: ServerConfig, serverUuid: string) {
  const hostName = config.nodeName.replace(/^.*@/, "");
  const serverUrl = urlOf(config, config.port === 0 ? 5984 : config.port);
  return { digests, serverUuid, hostName, port: config.port, serverUrl };
}

/** Creates the user directory and the parts that authenticate users. */
async function openAccounts(
  runtime: Runtime,
  kv: KeyValueStore,
  { configuration, bindAddress, secrets }: ServerConfig,
  databases: DatabaseRegistry,
) {
  const settings = authenticationSettings(configuration);
  const passwords = passwordSettings(configuration);
  const users = new UserDirectory({ kv, databases, configuration, passwords });
  const seal = secrets.ring;
  const storedSecret = await sessionSecret(runtime, kv, seal);
  const sessionSecrets = new SessionSecrets({
    runtime,
    kv,
    seal,
    configuration,
    settings,
    storedSecret,
  });
  const { clock } = runtime;
  const cookies = new SessionCookies(settings, clock, sessionSecrets);
  const allowsParty = isLoopback(bindAddress);
  const authentication = new Authentication({
    configuration,
    settings,
    users,
    cookies,
    secrets: sessionSecrets,
    lockout: new LoginLockout(lockoutSettings(configuration), runtime),
    clock,
    allowsParty,
  });
  return { passwords, users, cookies, authentication, sessionSecrets };
}

/** Creates the system databases that do not exist yet. */
export async function ensureSystemDatabases(
  kv: KeyValueStore,
  databases: DatabaseRegistry,
): Promise<void> {
  for (const name of SYSTEM_DATABASES) {
    try {
      await kv.transact((tx) => databases.create(tx, name));
    } catch (error) {
      if (errorCode(error) !== "STORE_DATABASE_EXISTS") throw error;
    }
  }
}
