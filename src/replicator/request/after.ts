/** `after`: names of the jobs for which a job waits before its first run. Pure. */
import { ReplicationInvalidError, shown } from "./parse-fields.ts";

/** Maximum number of names. Bounds the number of rows and reads per job. */
const AFTER_MAX = 8;
/**
 * Maximum length of a name. Long enough for a database, a slash and a document id of usual length.
 */
const NAME_LENGTH_MAX = 768;
const NAME = /^[^\p{C}]+$/u;

/** Distinct names, as given. */
export type After = readonly string[];

/**
 * Returns the names in a document, body or rule; undefined if the job waits for no other job.
 * Throws a ReplicationInvalidError.
 */
export function parseAfter(given: unknown): After | undefined {
  if (given === undefined || given === null) return undefined;
  const names: readonly unknown[] = Array.isArray(given) ? given : [given];
  if (names.length > AFTER_MAX) {
    throw new ReplicationInvalidError(
      `\`after\` must have at most ${AFTER_MAX} names, but has ${names.length}`,
    );
  }
  for (const [index, name] of names.entries()) {
    if (isName(name)) continue;
    const path = Array.isArray(given) ? `after[${index}]` : "after";
    throw new ReplicationInvalidError(
      `\`${path}\` must be the name of a job, such as "other-job" or "_replicator/other-job", of 1 to ${NAME_LENGTH_MAX} printable characters, but is ${shown(name)}`,
    );
  }
  return names.length === 0 ? undefined : [...new Set(names as readonly string[])];
}

function isName(name: unknown): name is string {
  return typeof name === "string" && name.length <= NAME_LENGTH_MAX && NAME.test(name);
}

/**
 * Returns full names, as in lists of jobs. A name without a slash is the id of a document in the
 * same database, and is prefixed with the database.
 */
export function fullNames(after: After, database: string | undefined): readonly string[] {
  const prefix = database === undefined ? "" : `${database}/`;
  return [...new Set(after.map((name) => (name.includes("/") ? name : prefix + name)))];
}

/** Throws a ReplicationInvalidError if a document names itself. */
export function refuseSelf(
  after: After | undefined,
  { database, id }: { readonly database: string; readonly id: string },
): void {
  if (after === undefined || !fullNames(after, database).includes(`${database}/${id}`)) return;
  throw new ReplicationInvalidError(
    `\`after\` names this document itself, ${shown(id)}, so the job would never start`,
  );
}

/** Throws a ReplicationInvalidError for names without a slash, which only documents may use. */
export function refuseShortNames(after: After | undefined): void {
  const short = after?.find((name) => !name.includes("/"));
  if (short === undefined) return;
  throw new ReplicationInvalidError(
    `\`after\` must have names such as "_replicator/document" or "rule/database" here, but has ${shown(short)}`,
  );
}

/** Throws a ReplicationInvalidError for names that a rule may not use. */
export function checkRuleAfter(after: After | undefined, rule: string): void {
  refuseShortNames(after);
  const own = after?.find((name) => name.startsWith(`${rule}/`));
  if (own !== undefined) {
    throw new ReplicationInvalidError(
      `\`after\` names a job of this rule itself, ${shown(own)}; jobs of one rule do not wait for each other`,
    );
  }
  const numbered = after?.find((name) => /\{\d+\}/.test(name));
  if (numbered !== undefined) {
    throw new ReplicationInvalidError(
      `\`after\` may contain {db}, but no placeholders for matched text such as ${shown(numbered)}`,
    );
  }
  const repeated = after?.find((name) => name.split("{db}").length > 2);
  if (repeated === undefined) return;
  throw new ReplicationInvalidError(
    `\`after\` must have {db} at most once in a name, but has ${shown(repeated)}`,
  );
}
