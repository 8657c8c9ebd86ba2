/** Conversion between the fields of the form and a rule. */
import { isJsonObject } from "../../base/index.ts";
import type { Rule } from "../../contract/index.ts";
import {
  type EndpointFields,
  endpointFields,
  endpointOf,
  FieldError,
  JOB_MEMBERS,
  type JobFields,
  jobFieldsOf,
  linesOf,
  type Made,
  type Member,
  madeOf,
  makersOf,
  OPTION_MEMBERS,
  type OptionFields,
  optionFieldsOf,
} from "./replication-form.ts";

export const SECURITY_KINDS = ["none", "created", "matching"] as const;
export type SecurityKind = (typeof SECURITY_KINDS)[number];

export interface RuleFields extends OptionFields, JobFields {
  readonly source: EndpointFields;
  readonly target: EndpointFields;
  /** Patterns, one per line. */
  readonly databases: string;
  readonly except: string;
  readonly createTarget: boolean;
  readonly designDocuments: boolean;
  readonly security: SecurityKind;
  /** Patterns of existing targets whose security objects are replaced, one per line. */
  readonly overwritten: string;
  readonly concurrency: string;
  readonly whenDeleted: "keep" | "stop";
}

type Body = Readonly<Record<string, unknown>>;

/** Initial content of a new rule. */
export const NEW_RULE: Body = { source: "", target: "", databases: ["*"] };

const MEMBERS: readonly Member<RuleFields>[] = [
  patternsMember("databases", ({ databases }) => databases),
  patternsMember("except", ({ except }) => except),
  {
    name: "create_target",
    shown: ({ createTarget }) => createTarget,
    made: ({ createTarget }) => (createTarget ? undefined : false),
  },
  {
    name: "design_documents",
    shown: ({ designDocuments }) => designDocuments,
    made: ({ designDocuments }) => (designDocuments ? undefined : false),
  },
  {
    name: "security",
    shown: ({ security, overwritten }) => [security, overwritten],
    made: ({ security, overwritten }) =>
      security === "matching" ? linesOf(overwritten) : security === "created" || undefined,
  },
  {
    name: "concurrency",
    shown: ({ concurrency }) => concurrency,
    made: ({ concurrency }) => concurrencyOf(concurrency.trim()),
  },
  {
    name: "delete",
    shown: ({ whenDeleted }) => whenDeleted,
    made: ({ whenDeleted }) => (whenDeleted === "stop" ? "stop" : undefined),
  },
  ...JOB_MEMBERS,
];

function patternsMember(
  name: "databases" | "except",
  textOf: (fields: RuleFields) => string,
): Member<RuleFields> {
  return {
    name,
    shown: textOf,
    made: (fields) => {
      const patterns = linesOf(textOf(fields));
      if (patterns.length > 0) return patterns;
      if (name === "except") return undefined;
      throw new FieldError(name, "Enter at least one pattern, such as *", true);
    },
  };
}

function concurrencyOf(text: string): number | undefined {
  if (text === "") return undefined;
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new FieldError("concurrency", "Expected 1 or more");
}

const MEMBER_NAMES = ["source", "target", "options", ...MEMBERS.map(({ name }) => name)];
const OPTION_NAMES = OPTION_MEMBERS.map(({ name }) => name);

/**
 * Builds the rule from the fields. Members of `original` that the form does not support or the user
 * did not change are preserved.
 */
export function ruleOf(fields: RuleFields, original: Body): Made {
  const before = ruleFieldsOf(original);
  const given = isJsonObject(original.options) ? original.options : {};
  const chosen = madeOf(makersOf(OPTION_MEMBERS, fields, before, given));
  const options = replaced(given, chosen.document, OPTION_NAMES);
  const isEmpty = Object.keys(options).length === 0;
  const made = madeOf([
    ["source", () => endpointOf("source", fields.source, original.source)],
    ["target", () => endpointOf("target", fields.target, original.target)],
    ...makersOf(MEMBERS, fields, before, original),
    ["options", () => (isEmpty ? original.options : options)],
  ]);
  return {
    document: replaced(original, made.document, MEMBER_NAMES),
    errors: new Map([...made.errors, ...chosen.errors]),
  };
}

/** Merges `made` into `original`. Members in `names` that `made` lacks are removed. */
function replaced(original: Body, made: Body, names: readonly string[]): Body {
  const members = Object.entries({ ...original, ...made });
  return Object.fromEntries(
    members.filter(([name]) => made[name] !== undefined || !names.includes(name)),
  );
}

/** Returns the fields that represent the rule. */
export function ruleFieldsOf(body: Body): RuleFields {
  const { security, concurrency } = body;
  return {
    ...optionFieldsOf(isJsonObject(body.options) ? body.options : {}),
    ...jobFieldsOf(body),
    source: endpointFields(body.source),
    target: endpointFields(body.target),
    databases: textOfLines(body.databases),
    except: textOfLines(body.except),
    createTarget: body.create_target !== false,
    designDocuments: body.design_documents !== false,
    security: Array.isArray(security) ? "matching" : security === true ? "created" : "none",
    overwritten: textOfLines(security),
    concurrency: concurrency === undefined ? "" : String(concurrency),
    whenDeleted: body.delete === "stop" ? "stop" : "keep",
  };
}

function textOfLines(value: unknown): string {
  return Array.isArray(value) ? value.join("\n") : "";
}

/** Returns the members of a rule without those that the node adds. */
export function bodyOf({ name: _name, status: _status, ...body }: Rule): Body {
  return body;
}

/** Returns the address of one side as given, or `undefined` if the rule does not contain it. */
export function addressOfSide(rule: Rule, side: "source" | "target"): string | undefined {
  const { [side]: given } = rule;
  return given === undefined ? undefined : endpointFields(given).address;
}
