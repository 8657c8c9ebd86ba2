/**
 * Parses the options of documents, bodies and stored jobs, as described in `REPLICATION_OPTIONS`.
 */

import {
  eachOption,
  FAR_BOUNDS,
  OPTION_NAMES,
  type Option,
  type OptionValue,
  REPLICATION_OPTIONS,
  type ReplicationOptions,
} from "../../contract/index.ts";
import { type Members, ReplicationInvalidError, shown } from "./parse-fields.ts";

/**
 * Returns the options in `members`, with `defaults` for those that are absent. Throws a
 * ReplicationInvalidError.
 */
export function parseOptions(members: Members, defaults: ReplicationOptions): ReplicationOptions {
  const options = eachOption((option, name) => parseOption(members, option, defaults[name]));
  const isGiven = (name: keyof ReplicationOptions): boolean =>
    (members[REPLICATION_OPTIONS[name].name] ?? null) !== null;
  return withBounds(options, ({ of, bound }) => isGiven(of) && !isGiven(bound));
}

/**
 * Returns the options with the limits for distant servers set to those for nearby servers:
 * `workerProcessesMax` to `workerProcesses`, and `httpConnectionsMax` to `httpConnections`. Sets
 * only the limits for which `applies` is true.
 */
function withBounds(
  options: ReplicationOptions,
  applies: (pair: (typeof FAR_BOUNDS)[number]) => boolean,
): ReplicationOptions {
  const bounds = FAR_BOUNDS.filter(applies).map(({ of, bound }) => [bound, options[of]]);
  return bounds.length === 0 ? options : { ...options, ...Object.fromEntries(bounds) };
}

/**
 * Checks a value. Throws a ReplicationInvalidError with the field, its value and the accepted
 * values.
 */
export function parseOption<O extends Option>(
  members: Members,
  option: O,
  otherwise: OptionValue<O>,
): OptionValue<O> {
  const given = members[option.name];
  if (given === undefined) return otherwise;
  if (given === null && option.kind !== "boolean") return otherwise;
  return checked(option, option.kind === "integer" ? numberOf(given) : given) as OptionValue<O>;
}

/**
 * Returns the options of a stored job, with defaults for options unknown to the version that stored
 * it.
 */
export function storedOptions(stored: Partial<ReplicationOptions>): ReplicationOptions {
  if (isWhole(stored)) return stored;
  const options = eachOption((option, name) => stored[name] ?? option.default);
  return withBounds(
    options,
    ({ of, bound }) =>
      stored[bound] === undefined && options[of] !== REPLICATION_OPTIONS[of].default,
  );
}

/** Whether all options are present, as in most jobs. They can then be used unchanged. */
function isWhole(stored: Partial<ReplicationOptions>): stored is ReplicationOptions {
  if (Object.keys(stored).length !== OPTION_NAMES.length) return false;
  return OPTION_NAMES.every((name) => stored[name] !== undefined && stored[name] !== null);
}

/**
 * Returns the options with which a stored job runs. Clamps numbers above the maximum, which earlier
 * versions accepted. Throws a ReplicationInvalidError for a value that only a newer version
 * accepts.
 */
export function runnableOptions(options: ReplicationOptions): ReplicationOptions {
  return eachOption((option, name) => checked(option, bounded(option, options[name])));
}

function bounded(option: Option, value: unknown): unknown {
  if (option.kind !== "integer" || option.max === undefined) return value;
  return typeof value === "number" ? Math.min(value, option.max) : value;
}

function checked(option: Option, value: unknown): unknown {
  if (isOf(option, value)) return value;
  throw new ReplicationInvalidError(`${expectation(option)}, but is ${shown(value)}`);
}

function isOf(option: Option, value: unknown): boolean {
  if (option.kind === "boolean") return typeof value === "boolean";
  if (option.kind === "choice") return option.choices.some((choice) => choice === value);
  const { min, max = Number.MAX_SAFE_INTEGER } = option;
  return Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max;
}

/**
 * Returns the beginning of an error message, which describes the accepted values. For CouchDB's
 * options, it begins like CouchDB's message.
 */
function expectation(option: Option): string {
  const { name, kind } = option;
  if (kind === "boolean") return `parameter \`${name}\` must be a boolean`;
  if (kind === "choice") return `\`${name}\` must be one of ${option.choices.join(", ")}`;
  const { min, max } = option;
  return `\`${name}\` must be an integer ${max === undefined ? `of at least ${min}` : `from ${min} to ${max}`}`;
}

/** Accepts a string of digits as a number, as CouchDB does. */
function numberOf(given: unknown): unknown {
  return typeof given === "string" && /^[0-9]+$/.test(given) ? Number(given) : given;
}
