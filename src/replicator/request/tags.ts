/** Tags of a job: names and values by which operators select and count jobs. Pure. */
import { isObject, ReplicationInvalidError, SHOWN_LENGTH_MAX, shown } from "./parse-fields.ts";

/** Maximum number of tags of a job. Bounds its rows in the job index. */
const TAGS_MAX = 16;
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** Excludes the comma, which separates the tags of a filter. */
const VALUE = /^[^\p{C}\p{Zl}\p{Zp},]{1,128}$/u;

/** Values by name, sorted by name, so that equal tags have equal JSON. */
export type Tags = Readonly<Record<string, string>>;

/** Returns the tags in a document, body or rule. Throws a ReplicationInvalidError. */
export function parseTags(given: unknown): Tags | undefined {
  if (given === undefined || given === null) return undefined;
  if (!isObject(given)) {
    throw new ReplicationInvalidError(
      `\`tags\` must be an object such as {"team": "billing"}, but is ${shown(given)}`,
    );
  }
  const names = Object.keys(given).sort();
  if (names.length > TAGS_MAX) {
    throw new ReplicationInvalidError(
      `\`tags\` must have at most ${TAGS_MAX} names, but has ${names.length}`,
    );
  }
  if (names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, tagValue(name, given[name])]));
}

function tagValue(name: string, value: unknown): string {
  const path = `tags.${name}`.slice(0, SHOWN_LENGTH_MAX);
  if (!isTagName(name)) {
    throw new ReplicationInvalidError(
      `\`${path}\` must have a name of 1 to 64 characters of a-z, 0-9, _ and -, the first one a letter or digit`,
    );
  }
  if (isTagValue(value)) return value;
  throw new ReplicationInvalidError(
    `\`${path}\` must be a string of 1 to 128 printable characters without commas, but is ${shown(value)}`,
  );
}

export function isTagName(name: string): boolean {
  return NAME.test(name);
}

function isTagValue(value: unknown): value is string {
  return typeof value === "string" && VALUE.test(value);
}

/** Returns the tags as `name:value`, as in lists and filters. */
export function tagTerms(tags: Tags | undefined): readonly string[] {
  return Object.entries(tags ?? {}).map(([name, value]) => `${name}:${value}`);
}

/** Splits `name:value`. The value is undefined if the term is only a name. */
export function splitTerm(term: string): readonly [name: string, value: string | undefined] {
  const colon = term.indexOf(":");
  return colon < 0 ? [term, undefined] : [term.slice(0, colon), term.slice(colon + 1)];
}

/** Returns the distinct terms of a filter, as given; undefined if one of them is invalid. */
export function parseTagFilter(text: string): readonly string[] | undefined {
  const terms = [...new Set(text.split(",").map((term) => term.trim()))];
  const areValid = terms.every((term) => {
    const [name, value] = splitTerm(term);
    return isTagName(name) && (value === undefined || isTagValue(value));
  });
  return areValid && terms.length <= TAGS_MAX ? terms : undefined;
}
