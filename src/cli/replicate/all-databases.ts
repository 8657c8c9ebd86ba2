/** The databases of a server, for commands with `--all`, selected by patterns as in rules. */
import { append } from "../../base/index.ts";
import type { Connections } from "../../library/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import {
  listNames,
  matchRule,
  parseRule,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
  type Rule,
  ruleReplication,
} from "../../replicator/index.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { type GivenEndpoint, type GivenSides, withCredentials } from "./endpoint-credentials.ts";

export interface AllFlags {
  readonly all?: boolean;
  readonly databases?: readonly string[];
  readonly except?: readonly string[];
  readonly security?: boolean;
  /**
   * Patterns of target names. The security object of a matching target is replaced even if the
   * target already existed. Used as the `security` member of the rule.
   */
  readonly overwriteSecurity?: readonly string[];
}

/** A selected database of the source: its replication, or why it cannot be copied. */
export type ChosenDatabase =
  | { readonly kind: "copied"; readonly name: string; readonly replication: Replication }
  | { readonly kind: "invalid"; readonly name: string; readonly reason: string };

export interface ChosenDatabases {
  readonly chosen: readonly ChosenDatabase[];
  /**
   * Databases that exist only on the target server. Empty if the names of copies differ from those
   * of their sources.
   */
  readonly onlyAtTarget: readonly string[];
}

/** Rejects flags that apply to a single database. */
export function refuseWithAll(
  flags: Readonly<Record<string, unknown>>,
  names: readonly string[],
): void {
  const given = names.find((name) => flags[name] !== undefined);
  if (given === undefined) return;
  throw new WrongUse(`--${optionOf(given)} cannot be combined with --all`);
}

/** Unless `--all` is given, rejects flags that select databases. */
export function refuseWithoutAll(flags: AllFlags): void {
  const { databases, except, security, overwriteSecurity } = flags;
  const ofAll = { databases, except, security, overwriteSecurity };
  const given = Object.entries(ofAll).find(([, value]) => value);
  if (given !== undefined) throw new WrongUse(`--${optionOf(given[0])} requires --all`);
}

function optionOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/**
 * Returns the databases of the source that the flags select. If copies keep the names of their
 * sources, also returns the databases that only the target has. Rejects if no database matches the
 * given patterns.
 */
export async function chooseDatabases(
  connections: Connections,
  sides: GivenSides,
  { databases, except, security = false, overwriteSecurity }: AllFlags,
  signal: AbortSignal,
): Promise<ChosenDatabases> {
  const target = sides.target.url;
  checkServer("SOURCE", sides.source.url);
  checkServer("TARGET", target);
  const keepsNames = !target.includes("{");
  const endpoints = await withCredentials(sides);
  const rule = parseRule(
    {
      source: endpoints.source,
      target: keepsNames ? withPlaceholder(endpoints.target) : endpoints.target,
      security: overwriteSecurity ?? security,
      ...(databases === undefined ? {} : { databases }),
      ...(except === undefined ? {} : { except }),
    },
    REPLICATOR_CONFIG_DEFAULT,
  );
  const names = await namesAt(connections, rule, signal);
  const chosen = names.flatMap((name) => chosenDatabase(rule, name));
  // Patterns that match no database are probably mistyped. Without this check, `tandem verify`
  // would compare nothing and report the servers as identical.
  if (databases !== undefined && chosen.length === 0) throw nothingMatches(databases, except);
  if (!keepsNames) return { chosen, onlyAtTarget: [] };
  const there = new Set(names);
  const backwards = parseRule(
    { source: endpoints.target, target: "https://unused.invalid/{db}" },
    REPLICATOR_CONFIG_DEFAULT,
  );
  const atTarget = await namesAt(connections, backwards, signal);
  const onlyAtTarget = atTarget.filter(
    (name) => !there.has(name) && matchRule(rule, name).kind === "match",
  );
  return { chosen, onlyAtTarget };
}

/**
 * Appends the placeholder `{db}` to the URL of a server, so that copies keep the names of their
 * sources.
 */
function withPlaceholder(server: GivenEndpoint): GivenEndpoint {
  if (typeof server !== "string")
    return { ...server, url: `${server.url.replace(/\/$/, "")}/{db}` };
  return `${server.replace(/\/$/, "")}/{db}`;
}

/**
 * Checks the URL of a server, which might contain a password. Errors of `parseRule` would show it.
 */
function checkServer(argument: string, url: string): void {
  const withoutPlaceholders = url.replaceAll(/[{}]/g, "");
  if (/^https?:\/\/[^/]/i.test(url) && URL.canParse(withoutPlaceholders)) return;
  throw new WrongUse(`${argument} ${maskCredentials(url)}: expected the http:// URL of a server`);
}

function nothingMatches(databases: readonly string[], except: readonly string[] = []): Error {
  const exceptions = except.length === 0 ? "" : `, except ${quoted(except)}`;
  return new Error(`no database matches ${quoted(databases)}${exceptions}`);
}

function quoted(patterns: readonly string[]): string {
  return patterns.map((pattern) => `'${pattern}'`).join(", ");
}

async function namesAt(
  connections: Connections,
  { server }: Rule,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (server === undefined) throw new WrongUse("--all: expected the URLs of two servers");
  const names: string[] = [];
  const turn = async (): Promise<void> => signal.throwIfAborted();
  const pages = listNames(connections.openServer(server), turn, signal);
  for await (const page of pages) append(names, page.names);
  return names;
}

function chosenDatabase(rule: Rule, name: string): readonly ChosenDatabase[] {
  const match = matchRule(rule, name);
  if (match.kind === "none") return [];
  const { target } = match;
  if (target.kind === "invalid") return [{ kind: "invalid", name, reason: target.reason }];
  const replication = ruleReplication(rule, name, target.url, REPLICATOR_CONFIG_DEFAULT);
  return [{ kind: "copied", name, replication: { ...replication, continuous: false } }];
}
