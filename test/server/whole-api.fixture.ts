/** All routes of a server on the memory engine, without a socket. Jobs do not run. */
import { apiRoutes } from "../../src/api/api.ts";
import type { ApiParts } from "../../src/api/index.ts";
import type { Runtime } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../src/kv/index.ts";
import { isReplicatorDatabase } from "../../src/replicator/index.ts";
import { Formats } from "../../src/server/formats.ts";
import { readConfig } from "../../src/server/index.ts";
import { EventCounts, Metrics } from "../../src/server/metrics/metrics.ts";
import { routes } from "../../src/server/routes.ts";
import { establishKeys } from "../../src/server/secrets/key-record.ts";
import { Rotation } from "../../src/server/secrets/rotation.ts";
import { authenticationSettings } from "../../src/server/settings/authentication-settings.ts";
import { lockoutSettings } from "../../src/server/settings/lockout-settings.ts";
import { MaskedConfiguration } from "../../src/server/settings/node-configuration.ts";
import { passwordSettings } from "../../src/server/settings/password-settings.ts";
import { tagSettings } from "../../src/server/settings/tag-settings.ts";
import { Authentication } from "../../src/server/users/authentication.ts";
import { LoginLockout } from "../../src/server/users/login-lockout.ts";
import { SessionCookies } from "../../src/server/users/session-cookies.ts";
import { UserDirectory } from "../../src/server/users/user-directory.ts";
import { type OpenApi, openApi } from "../api/api.fixture.ts";
import { composeNode } from "../support/compose-node.ts";

export interface WholeApiOptions {
  /** Handlers that replace the server's own ways to log in. */
  readonly authenticate?: ApiParts["authenticate"];
  readonly configFile?: string;
  /** Existing node that is used instead of a new node. */
  readonly node?: WholeApiNode;
}

export interface WholeApiNode extends ReturnType<typeof composeNode> {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
}

export function openApiNode(): WholeApiNode {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), runtime, kv };
}

/** Opens the API. `root` is an administrator, with the password `secret`. */
export async function openWholeApi({
  authenticate,
  configFile,
  node: parts = openApiNode(),
}: WholeApiOptions = {}): Promise<OpenApi> {
  const { runtime, kv } = parts;
  await parts.replicator.prepare();
  const environment = { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" };
  const {
    configuration,
    nodeName,
    secrets: sealing,
  } = readConfig(
    { port: 0, store: "memory", ...(configFile === undefined ? {} : { configFile }) },
    environment,
  );
  await establishKeys({ random: runtime.random, kv, ...sealing });
  configuration.set("chttpd_auth", "iterations", "10");
  const settings = authenticationSettings(configuration);
  const passwords = passwordSettings(configuration);
  const secrets = { current: "secret", accepted: ["secret"] };
  const cookies = new SessionCookies(settings, runtime.clock, secrets);
  const users = new UserDirectory({ kv, databases: parts.databases, configuration, passwords });
  const { clock } = runtime;
  const authentication = new Authentication({
    configuration,
    settings,
    users,
    cookies,
    secrets,
    lockout: new LoginLockout(lockoutSettings(configuration), runtime),
    clock,
    allowsParty: false,
  });
  return openApi({
    parts: {
      runtime,
      kv,
      databases: parts.databases,
      attachments: parts.attachments,
      indexes: parts.indexes,
      indexBuilds: parts.indexBuilds,
      haltedRuns: {
        hasJobs: isReplicatorDatabase,
        settledAfter: (...asked) => parts.halted.settledAfter(...asked),
      },
      authenticate: authenticate ?? ((request) => authentication.authenticate(request)),
      routes: routes({
        ...parts,
        authentication,
        cookies,
        configuration: new MaskedConfiguration(configuration, passwords),
        metrics: new Metrics({
          clock,
          kv,
          databases: parts.databases,
          jobs: parts.jobs,
          replicator: parts.replicator,
          counts: new EventCounts(runtime.trace, runtime.clock),
          tags: tagSettings(configuration),
        }),
        nodeName,
        formats: new Formats({ runtime, kv, workers: parts.jobs.workers, enablesAlone: true }),
        secrets: new Rotation({
          ...parts,
          ...sealing,
          isSharedStore: false,
          renewOthers: async () => 0,
        }),
        shownUrl: () => "http://127.0.0.1:5984/",
      }),
    },
  });
}

/** Returns all routes of the API. */
export function wholeRoutes({ parts }: OpenApi): ReturnType<typeof apiRoutes> {
  return apiRoutes(parts, {
    answer: () => Promise.reject(new Error("no batch")),
    isBatched: () => false,
    batched: () => [],
  });
}
