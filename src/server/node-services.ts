/** Services of a node, depending on its roles. */
import { assert } from "../base/index.ts";
import { processMeter } from "../host/index.ts";
import type { Fetch } from "../http-client/index.ts";
import { ActivityMonitor, type LeaseRenewer } from "../jobs/index.ts";
import { AlertWatch } from "../replicator/index.ts";
import { AlertSender } from "./alerts/alert-sender.ts";
import type { AssembledNode } from "./assemble-node.ts";
import { AutoPurger } from "./auto-purger.ts";
import { ConflictResolver } from "./conflict-resolver.ts";
import { RULE_ALERTS_FORMAT } from "./formats.ts";
import { SUBSPACES, USER_DATABASES_KEY } from "./layout.ts";
import { CountReporter } from "./metrics/count-reporter.ts";
import type { CountReport } from "./metrics/metrics.ts";
import { ALL_JOB_TYPES, followLocalRules, joinReplication } from "./node-parts.ts";
import { ReplicationProcess, type StartProcess } from "./replication-process.ts";
import { KeyFollower } from "./secrets/key-follower.ts";
import { openEndpoints, reachOf } from "./serve-api.ts";
import { alertSettings } from "./settings/alert-settings.ts";
import { autoPurgeSettings } from "./settings/auto-purge-settings.ts";
import { ConfigurationRefresher } from "./settings/configuration-refresher.ts";
import { QueueSettings } from "./settings/queue-settings.ts";
import { REPLICATOR_SECTION } from "./settings/replicator-settings.ts";
import { tagSettings } from "./settings/tag-settings.ts";
import { userDatabaseSettings } from "./settings/user-database-settings.ts";
import type { Service } from "./supervise.ts";
import { TimeRecorder } from "./time-recorder.ts";
import { UserDatabases } from "./users/user-databases.ts";
import { VERSION } from "./version.ts";

/** Connections to the parent and child processes of this process. */
export interface ProcessFamily {
  /**
   * Starts the program again as a replication node. Required only if replication processes are
   * configured.
   */
  readonly startProcess?: StartProcess;
  /** Set in a child process: sends its counts to the parent. */
  readonly tellParent?: ((report: CountReport) => void) | undefined;
}

/** Services of every node, whether it serves requests, runs jobs, or both. */
export function commonServices({
  runtime,
  kv,
  config,
  parts,
  functions,
  formats,
  rotation,
  reclaimer,
  accounts,
}: AssembledNode): Service[] {
  const { jobs, databases, replicator, budgets } = parts;
  return [
    ...ALL_JOB_TYPES.map((type) => new ActivityMonitor(runtime, kv, jobs, type)),
    {
      name: formats.name,
      run: (signal) => formats.run(signal, () => replicator.buildIndex()),
    },
    reclaimer,
    new TimeRecorder(parts),
    new AutoPurger({ ...parts, settings: autoPurgeSettings(config.configuration) }),
    new ConflictResolver({ runtime, kv, databases, functions }),
    budgets,
    parts.removedDatabases,
    parts.remover,
    parts.cleanUp,
    parts.indexFolder,
    new ConfigurationRefresher(runtime, config.configuration),
    new QueueSettings(config.configuration, replicator),
    new KeyFollower(runtime, kv, config.secrets.ring, () => config.configuration.renewSecrets()),
    rotation,
    ...(config.nodeTypes.has("api_frontend") ? [accounts.sessionSecrets] : []),
    new UserDatabases({
      runtime,
      kv,
      databases,
      configuration: config.configuration,
      settings: userDatabaseSettings(config.configuration),
      progressKey: USER_DATABASES_KEY,
    }),
  ];
}

/** Services that run the child processes, and that send reports to the parent. */
export function familyServices(
  { runtime, config, counts, shown }: AssembledNode,
  { startProcess, tellParent }: ProcessFamily,
): Service[] {
  const services: Service[] = [];
  if (config.replicationProcesses > 0) {
    assert(
      startProcess !== undefined,
      "A node with replication processes must be given a way to start them",
    );
    for (let number = 1; number <= config.replicationProcesses; number++) {
      const onCounted = (reported: unknown): void => {
        const report = reported as CountReport;
        counts.absorb(report);
        runtime.trace.event("counts.reported", { rowCount: report.length });
      };
      services.push(new ReplicationProcess(number, () => startProcess(shown.url, onCounted)));
    }
  }
  if (tellParent !== undefined) services.push(new CountReporter(runtime.clock, counts, tellParent));
  return services;
}

/**
 * Returns the services that run jobs. A frontend runs only jobs that need no connections to other
 * servers.
 */
export function jobServices(node: AssembledNode, renewer: LeaseRenewer, fetch: Fetch): Service[] {
  const { config, counts, parts } = node;
  const { configuration, nodeName } = config;
  const processId = String(process.pid);
  const { program } = node.formats;
  if (!config.nodeTypes.has("replication")) {
    const endpoints = openEndpoints(node, fetch);
    return [followLocalRules(parts, { endpoints, renewer, nodeName, processId, program })];
  }
  const { outages, clockSteps, scheduler, backlogWatch, nodeReporter } = joinReplication(parts, {
    reach: reachOf(node, fetch),
    renewer,
    nodeName,
    processId,
    labels: config.labels,
    program,
    measureProcess: processMeter(),
    measureRuns: () => counts.runs.totals,
  });
  configuration.watch(REPLICATOR_SECTION, () => scheduler.settingsChanged());
  return [outages, clockSteps, scheduler, backlogWatch, nodeReporter, alertSender(node, fetch)];
}

/**
 * Creates the sender of alerts. It runs on each replication node if a receiver is configured, but
 * only one of these nodes at a time sends alerts.
 */
function alertSender(
  { runtime, kv, config, parts, shown, formats }: AssembledNode,
  fetch: Fetch,
): Service {
  const settings = alertSettings(config.configuration);
  const { events, index, databases, replicator } = parts;
  const subspace = SUBSPACES.replicator;
  const { rules } = replicator;
  const watch = new AlertWatch({
    ...{ runtime, kv, subspace, events, index, rules, settings },
    tags: tagSettings(config.configuration),
    reportsRules: (tx) => formats.stored.includes(tx, RULE_ALERTS_FORMAT),
  });
  const jobs = { kv, databases, replicator, shownUrl: () => shown.url };
  return new AlertSender({ runtime, watch, settings, jobs, fetch, userAgent: `Tandem/${VERSION}` });
}
