/** Reads the options of documents, bodies and stored jobs by their table. */

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

/** What `members` say, and `defaults` where they say nothing. Throws a ReplicationInvalidError. */
export function parseOptions(members: Members, defaults: ReplicationOptions): ReplicationOptions {
  const options = eachOption((option, name) => parseOption(members, option, defaults[name]));
  const isGiven = (name: keyof ReplicationOptions): boolean =>
    (members[REPLICATION_OPTIONS[name].name] ?? null) !== null;
  return withBounds(options, ({ of, bound }) => isGiven(of) && !isGiven(bound));
}

/** With the bounds `applies` says of as high as the numbers that they are of. */
function withBounds(
  options: ReplicationOptions,
  applies: (pair: (typeof FAR_BOUNDS)[number]) => boolean,
): ReplicationOptions {
  const bounds = FAR_BOUNDS.filter(applies).map(({ of, bound }) => [bound, options[of]]);
  return bounds.length === 0 ? options : { ...options, ...Object.fromEntries(bounds) };
}

/** Throws a ReplicationInvalidError that names the field, its value, and what would be right. */
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

/** The options of a stored job: what an older version did not know has its default. */
export function storedOptions(stored: Partial<ReplicationOptions>): ReplicationOptions {
  if (isWhole(stored)) return stored;
  const options = eachOption((option, name) => stored[name] ?? option.default);
  return withBounds(
    options,
    ({ of, bound }) =>
      stored[bound] === undefined && options[of] !== REPLICATION_OPTIONS[of].default,
  );
}

/** Whether another version would have stored the same: most jobs are of this one, and lists read many of them. */
function isWhole(stored: Partial<ReplicationOptions>): stored is ReplicationOptions {
  if (Object.keys(stored).length !== OPTION_NAMES.length) return false;
  return OPTION_NAMES.every((name) => stored[name] !== undefined && stored[name] !== null);
}

/**
 * The options that a stored job runs with. A number above its bound, which versions before have taken, counts as the bound. Throws a
 * ReplicationInvalidError for a value that only a newer version knows: it must not act as another.
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

/** The beginnings are CouchDB's. */
function expectation(option: Option): string {
  const { name, kind } = option;
  if (kind === "boolean") return `parameter \`${name}\` must be a boolean`;
  if (kind === "choice") return `\`${name}\` must be one of ${option.choices.join(", ")}`;
  const { min, max } = option;
  return `\`${name}\` must be an integer ${max === undefined ? `of at least ${min}` : `from ${min} to ${max}`}`;
}

/** CouchDB takes texts of digits, too. */
function numberOf(given: unknown): unknown {
  return typeof given === "string" && /^[0-9]+$/.test(given) ? Number(given) : given;
}
