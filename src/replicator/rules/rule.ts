/** A rule: one replication for each matching database of a server. */

import { DOCUMENT_OPTIONS, RuleDefinition, WEIGHT } from "../../contract/index.ts";
import { isSystemName, UntrustedName } from "../../databases/index.ts";
import { type Labels, NO_LABELS } from "../../jobs/index.ts";
import { Glob } from "../jobs/glob.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { type After, parseAfter } from "../request/after.ts";
import { parseEndpoint, type Side } from "../request/parse-endpoint.ts";
import {
  boolean,
  decode,
  isObject,
  type Members,
  ReplicationInvalidError,
  SHOWN_LENGTH_MAX,
  shown,
} from "../request/parse-fields.ts";
import { OMISSION_MEMBERS } from "../request/parse-omissions.ts";
import { parseOption, parseOptions } from "../request/parse-options.ts";
import { parseReplication } from "../request/parse-replication.ts";
import type { HttpAddress, Replication } from "../request/replication.ts";
import { parseRunOn } from "../request/run-on.ts";
import { parseSchedule } from "../request/schedule.ts";
import { parseTags } from "../request/tags.ts";
import { LOCAL_SOURCE, serverOf } from "../request/watched-place.ts";
import { at, type ExpandedTarget, TargetTemplate } from "./target-template.ts";

/** Maximum number of patterns, which bounds the cost of matching a name. */
const PATTERNS_MAX = 100;
/** Maximum length of a pattern, equal to that of database names. */
const PATTERN_LENGTH_MAX = 238;
/** Selector that excludes design documents: no other ids begin with an underscore. */
const NO_DESIGN_DOCUMENTS = { _id: { $regex: "^[^_]" } };
/**
 * Members of `options` that a replication takes as separate members, not as options: the schedule
 * and omissions.
 */
const CHOSEN = ["schedule", ...OMISSION_MEMBERS];

/**
 * Name of an example database, for validating the members that all replications of the rule share.
 */
const SAMPLE_DATABASE = "a";

const ENDPOINT_MEMBERS = [
  "url",
  "auth",
  "headers",
  "verify_ssl_certificates",
  "ssl_certificate_max_depth",
  "ssl_trusted_certificates_file",
  "cacert_file",
  "cert_file",
  "key_file",
  "password",
];
const PROXIES = ["proxy", "source_proxy", "target_proxy"];
/** Members of a rule in the contract, except `name` (part of the path) and `status` (computed). */
const { name: _name, status: _status, ...PARSED } = RuleDefinition.properties;
const MEMBERS = Object.keys(PARSED);

export interface Rule {
  /** Root of the source's server; undefined for local databases. */
  readonly server: HttpAddress | undefined;
  readonly databases: readonly Glob[];
  readonly except: readonly Glob[];
  readonly target: TargetTemplate;
  /**
   * Treatment of the job of a deleted database. `keep`: the job is kept, and fails. `stop`: the job
   * is cancelled.
   */
  readonly whenDeleted: "keep" | "stop";
  /** Maximum number of jobs running concurrently; undefined for no limit. */
  readonly concurrency: number | undefined;
  /**
   * Whether security objects, and later changes of them, are copied to targets that the rule
   * creates.
   */
  readonly copiesSecurity: boolean;
  /** Patterns of existing targets whose security objects may be replaced. */
  readonly overwritten: readonly Glob[];
  /** Labels that a node must have to run the jobs, and to list the databases of a remote source. */
  readonly runOn: Labels;
  /**
   * Names of jobs that each job of the rule waits for before its first run; `{db}` stands for the
   * waiting job's database. Undefined for none.
   */
  readonly after: After | undefined;
  /** Members shared by all replications, including the endpoints without their URLs. */
  readonly common: Members & { readonly source: Members; readonly target: Members };
  /**
   * URL of the source's server, with the credentials given and a trailing slash; undefined for
   * local databases.
   */
  readonly sourceUrl: string | undefined;
}

type Config = Pick<ReplicatorConfig, "options" | "protocols">;

/** Parses a rule. Throws a ReplicationInvalidError for the first invalid member. */
export function parseRule(members: Members, config: Config): Rule {
  refuseUnknown(members, MEMBERS, "");
  const databases = parsePatterns(members, "databases", ["*"]);
  const source = endpointOf(members, "source");
  const target = endpointOf(members, "target");
  const template = new TargetTemplate(target.url);
  refuseMissingCaptures(template, databases);
  const sourceUrl = source.url === LOCAL_SOURCE ? undefined : serverUrl(source.url);
  const rule: Rule = {
    server: sourceUrl === undefined ? undefined : serverAddress(sourceUrl, source, members, config),
    sourceUrl,
    databases,
    except: parsePatterns(members, "except", []),
    target: template,
    whenDeleted: parseChoice(members, "delete", ["keep", "stop"]),
    concurrency: parseConcurrency(members.concurrency),
    runOn: parseRunOn(members.run_on) ?? NO_LABELS,
    after: parseAfter(members.after),
    ...parseSecurity(members),
    common: { ...commonMembers(members, config), source: source.others, target: target.others },
  };
  refuseCycle(rule, sampleReplication(rule, config));
  return rule;
}

export type RuleMatch =
  | { readonly kind: "none" }
  | { readonly kind: "match"; readonly target: ExpandedTarget };

/**
 * Decides whether the rule copies a listed database, and to which target. System databases must be
 * named exactly, by a pattern without `*`, as both source and target.
 */
export function matchRule({ databases, except, target }: Rule, name: string): RuleMatch {
  if (except.some((pattern) => pattern.match(name) !== undefined)) return { kind: "none" };
  for (const pattern of databases) {
    if (isSystemName(name) && pattern.text !== name) continue;
    const captures = pattern.match(name);
    if (captures === undefined) continue;
    const spelledOut = pattern.captureCount === 0 ? [pattern.text] : [];
    return { kind: "match", target: target.expand(new UntrustedName(name), captures, spelledOut) };
  }
  return { kind: "none" };
}

/**
 * Returns the replication of the database `name`. `targetUrl` is the target returned by
 * `matchRule`.
 */
export function ruleReplication(
  rule: Rule,
  name: string,
  targetUrl: string,
  config: Config,
): Replication {
  const { common, sourceUrl, copiesSecurity, after } = rule;
  const url = sourceUrl === undefined ? name : at(sourceUrl, name);
  const members = {
    ...common,
    source: { ...common.source, url },
    target: { ...common.target, url: targetUrl },
  };
  const names = after?.map((text) => text.replace("{db}", () => name));
  const replication = {
    ...parseReplication(members, config),
    ...(names === undefined ? {} : { after: names }),
  };
  if (!copiesSecurity) return replication;
  const overwritesSecurity = mayOverwrite(rule, name, targetUrl);
  return { ...replication, copiesSecurity, ...(overwritesSecurity ? { overwritesSecurity } : {}) };
}

/**
 * Whether the target's security object may be replaced: a pattern in `security` matches the target,
 * or `databases` contains the exact name of the database.
 */
function mayOverwrite(
  { databases, overwritten, target }: Rule,
  name: string,
  url: string,
): boolean {
  if (databases.some(({ text, captureCount }) => captureCount === 0 && text === name)) return true;
  const targetName =
    target.serverUrl === undefined ? url : decode(url.slice(target.serverUrl.length));
  return overwritten.some((pattern) => pattern.match(targetName) !== undefined);
}

/**
 * Parses `security`: `true` to copy security objects to targets that the rule creates, or patterns
 * for existing targets whose security objects are also replaced.
 */
function parseSecurity(members: Members): Pick<Rule, "copiesSecurity" | "overwritten"> {
  if (!Array.isArray(members.security)) {
    return { copiesSecurity: boolean(members, "security", false), overwritten: [] };
  }
  return { copiesSecurity: true, overwritten: parsePatterns(members, "security", []) };
}

function endpointOf(
  members: Members,
  side: Side,
): { readonly url: string; readonly others: Members } {
  const given = members[side];
  const endpoint = typeof given === "string" ? { url: given } : given;
  if (!isObject(endpoint) || typeof endpoint.url !== "string") {
    const wanted = side === "source" ? `a server's URL, or "${LOCAL_SOURCE}"` : "a URL with {db}";
    // Show only the type, because the value might contain a password.
    throw new ReplicationInvalidError(
      `\`${side}\` must be ${wanted}, or an object with such a \`url\`, but is ${kindOf(given)}`,
    );
  }
  refuseUnknown(endpoint, ENDPOINT_MEMBERS, `${side}.`);
  const { url, ...others } = endpoint;
  return { url: String(url), others };
}

function serverUrl(text: string): string {
  if (!/^https?:\/\/[^/?#]+(\/[^?#]*)?$/i.test(text)) {
    throw new ReplicationInvalidError(
      `\`source.url\` must be the http:// or https:// URL of a server, without query, or "${LOCAL_SOURCE}"`,
    );
  }
  return text.endsWith("/") ? text : `${text}/`;
}

function serverAddress(
  url: string,
  { others }: { readonly others: Members },
  members: Members,
  { protocols }: Config,
): HttpAddress {
  const sides = { ...proxiesOf(members), source: { ...others, url } };
  const address = parseEndpoint("source", sides, protocols);
  if (address.kind === "http") return address;
  throw new ReplicationInvalidError("`source.url` must be the URL of a server");
}

/** Returns the members that all replications of the rule share, apart from their endpoints. */
function commonMembers(members: Members, config: Config): Members {
  const { create_target_params } = members;
  const tags = parseTags(members.tags);
  const runOn = parseRunOn(members.run_on);
  const options = optionsOf(members, config);
  const { schedule } = options;
  const pair = boolean(members, "pair", false);
  return {
    ...proxiesOf(members),
    ...options,
    // A job with a schedule runs repeatedly instead of continuously, unless the schedule is only a
    // time window.
    continuous: schedule === undefined || parseSchedule(schedule).kind === "window",
    create_target: boolean(members, "create_target", true),
    ...(create_target_params === undefined ? {} : { create_target_params }),
    ...(tags === undefined ? {} : { tags }),
    ...(runOn === undefined ? {} : { run_on: runOn }),
    ...(pair ? { pair } : {}),
    ...(boolean(members, "design_documents", true) ? {} : { selector: NO_DESIGN_DOCUMENTS }),
  };
}

function proxiesOf(members: Members): Members {
  const given = PROXIES.filter((name) => members[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, members[name]]));
}

function optionsOf(members: Members, config: Config): Members {
  const { options = {} } = members;
  if (!isObject(options)) {
    throw new ReplicationInvalidError(`\`options\` must be an object, but is ${shown(options)}`);
  }
  const known = DOCUMENT_OPTIONS.map(({ name }) => name);
  refuseUnknown(options, [...known, ...CHOSEN], "options.");
  parseOptions(options, config.options);
  parseOption(options, WEIGHT, WEIGHT.default);
  return options;
}

function parsePatterns(
  members: Members,
  name: string,
  otherwise: readonly string[],
): readonly Glob[] {
  const { [name]: given = otherwise } = members;
  if (!Array.isArray(given) || given.length > PATTERNS_MAX) {
    throw new ReplicationInvalidError(
      `\`${name}\` must be an array of up to ${PATTERNS_MAX} patterns such as "user-*", but is ${shown(given)}`,
    );
  }
  if (name === "databases" && given.length === 0) {
    throw new ReplicationInvalidError('`databases` must have a pattern, such as "*", but is []');
  }
  return given.map((text: unknown, index) => {
    const isPattern = typeof text === "string" && text !== "" && text.length <= PATTERN_LENGTH_MAX;
    if (isPattern) return new Glob(text);
    throw new ReplicationInvalidError(
      `\`${name}[${index}]\` must be a pattern of 1 to ${PATTERN_LENGTH_MAX} characters such as "user-*", but is ${shown(text)}`,
    );
  });
}

function parseConcurrency(given: unknown): number | undefined {
  if (given === undefined) return undefined;
  if (Number.isSafeInteger(given) && Number(given) >= 1) return Number(given);
  throw new ReplicationInvalidError(
    `\`concurrency\` must be an integer of at least 1, but is ${shown(given)}`,
  );
}

function parseChoice<Value extends string>(
  members: Members,
  name: string,
  values: readonly [Value, ...Value[]],
): Value {
  const { [name]: given = values[0] } = members;
  const found = values.find((value) => value === given);
  if (found !== undefined) return found;
  const choices = values.map((value) => JSON.stringify(value)).join(" or ");
  throw new ReplicationInvalidError(`\`${name}\` must be ${choices}, but is ${shown(given)}`);
}

function refuseUnknown(members: Members, known: readonly string[], prefix: string): void {
  const unknown = Object.keys(members).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const name = (prefix + unknown).slice(0, SHOWN_LENGTH_MAX);
  throw new ReplicationInvalidError(`\`${name}\` is not known. Choose from: ${known.join(", ")}`);
}

function refuseMissingCaptures({ captureMax }: TargetTemplate, patterns: readonly Glob[]): void {
  for (const { text, captureCount } of patterns) {
    if (captureCount >= captureMax) continue;
    throw new ReplicationInvalidError(
      `\`target.url\` has {${captureMax}}, but the pattern ${shown(text)} of \`databases\` has only ${captureCount} stars`,
    );
  }
}

/**
 * Returns an example replication, for validating the members that all replications of the rule
 * share.
 */
export function sampleReplication(rule: Rule, config: Config): Replication {
  const { serverUrl: targetServer } = rule.target;
  const targetUrl =
    targetServer === undefined ? SAMPLE_DATABASE : at(targetServer, SAMPLE_DATABASE);
  return ruleReplication(rule, SAMPLE_DATABASE, targetUrl, config);
}

/** Rejects a rule that would copy its own targets on the same server, endlessly. */
function refuseCycle({ databases, except, target }: Rule, sample: Replication): void {
  if (!isSameServer(sample)) return;
  const { glob } = target;
  const isLeftOut = except.some((pattern) => pattern.covers(glob));
  const meeting = databases.find((pattern) => pattern.meets(glob));
  if (meeting === undefined || isLeftOut) return;
  throw new ReplicationInvalidError(
    `\`databases\` has ${shown(meeting.text)}, which also matches targets of this rule on the same server, so the targets would be copied too. Give the targets other names, or exclude them with "except": [${shown(glob.text)}]`,
  );
}

function isSameServer({ source, target }: Replication): boolean {
  if (source.kind === "local" || target.kind === "local") return source.kind === target.kind;
  const [one, other] = [source, target].map((address) => serverOf(address)?.server.url);
  return one !== undefined && one === other;
}

function kindOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a value of type ${typeof value}`;
}
