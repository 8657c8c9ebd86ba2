/**
 * `[chttpd_auth] password_regexp`: the requirements for new passwords, an Erlang list of regular
 * expressions, optionally with reasons: `[{".{10,}", "At least 10 characters."}, "\\d"]`.
 */

export interface PasswordRequirement {
  readonly pattern: RegExp;
  /** Message for a password that does not match the pattern. The message can be empty. */
  readonly reason: string;
}

/** Returns CouchDB's message for an unacceptable password, or `undefined` for an acceptable one. */
export function passwordFault(
  password: string,
  requirements: readonly PasswordRequirement[],
): string | undefined {
  const missed = requirements.find(({ pattern }) => !pattern.test(password));
  if (missed === undefined) return undefined;
  return `Password does not conform to requirements. ${missed.reason}`.trimEnd();
}

const STRING = /"(?:[^"\\]|\\.)*"/s.source;
const ITEM = new RegExp(
  String.raw`\s*(?:(${STRING})|\{\s*(${STRING})\s*(?:,\s*(${STRING})\s*)?\})\s*`,
  "sy",
);

/** Parses the list of requirements. Returns `undefined` if the list is invalid. */
export function parseRequirements(text: string): readonly PasswordRequirement[] | undefined {
  const inner = /^\s*\[(.*)\]\s*$/s.exec(text)?.[1];
  if (inner === undefined) return undefined;
  const requirements: PasswordRequirement[] = [];
  let position = 0;
  while (inner.slice(position).trim() !== "") {
    if (requirements.length > 0 && inner[position++] !== ",") return undefined;
    ITEM.lastIndex = position;
    const [whole, bare, paired, reason = '""'] = ITEM.exec(inner) ?? [];
    const source = bare ?? paired;
    if (whole === undefined || source === undefined) return undefined;
    position += whole.length;
    try {
      requirements.push({ pattern: new RegExp(unescaped(source)), reason: unescaped(reason) });
    } catch {
      return undefined;
    }
  }
  return requirements;
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", s: " " };

/** Returns the value of an Erlang string literal. */
function unescaped(literal: string): string {
  return literal.slice(1, -1).replace(/\\(.)/gs, (_, char: string) => ESCAPES[char] ?? char);
}
