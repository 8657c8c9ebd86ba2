/**
 * User-supplied regular expressions, run by an engine whose time is linear in the length of the
 * text, so that a pattern cannot block the server. CouchDB's PCRE instead stops after a number of
 * steps and treats the text as not matching.
 */
import { RE2JS, RE2JSException } from "re2js";
import { badRequest, type ProtocolError } from "./protocol-error.ts";

/** A rejected pattern; the message names the unsupported construct. */
export class PatternError extends Error {
  override readonly name = "PatternError";
}

const PATTERN_LENGTH_MAX = 10_000;

/**
 * Maximum number of instructions of a compiled pattern. `(a{1,100}){9}` has about 1,800
 * instructions.
 */
const PROGRAM_SIZE_MAX = 2_000;

/**
 * Maximum number of steps, estimated as instructions times characters of text. With ordinary
 * patterns, such a step takes about 0.2 ns on average; with the worst patterns, 20 ns.
 */
const STEPS_MAX = 20_000_000;

/** CouchDB's POSIX classes include the letters of all scripts. */
const POSIX_CLASSES: Readonly<Record<string, string>> = {
  alpha: "\\p{L}",
  digit: "0-9",
  alnum: "\\p{L}\\p{N}",
  upper: "\\p{Lu}",
  lower: "\\p{Ll}",
  space: "\\s",
  punct: "\\p{P}\\p{S}",
};

/**
 * Returns a function that tests whether a text contains a match. Throws a PatternError if the
 * pattern is not supported. The returned function throws a ProtocolError 400 if the text is too
 * long for the pattern (megabytes).
 */
export function compilePattern(pattern: string): (text: string) => boolean {
  const expression = compileExpression(pattern);
  const size = expression.programSize();
  if (size > PROGRAM_SIZE_MAX) {
    throw new PatternError(
      `too many repetitions: the pattern has ${size} steps, at most ${PROGRAM_SIZE_MAX} are allowed`,
    );
  }
  return (text) => {
    if (size * text.length > STEPS_MAX) throw tooLong(pattern, text.length);
    return expression.test(text);
  };
}

function tooLong(pattern: string, length: number): ProtocolError {
  const reason = `A text of ${length} characters is too long for the pattern ${JSON.stringify(pattern)}`;
  return badRequest(reason);
}

function compileExpression(pattern: string): RE2JS {
  if (pattern.length > PATTERN_LENGTH_MAX) {
    throw new PatternError(
      `the pattern has ${pattern.length} characters, at most ${PATTERN_LENGTH_MAX} are allowed`,
    );
  }
  const source = pattern.replace(
    /\[:(\w+):\]/g,
    (whole, name: string) => POSIX_CLASSES[name] ?? whole,
  );
  try {
    return RE2JS.compile(source);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new PatternError(faultOf(pattern, error.message));
  }
}

/**
 * Returns the reason for a rejection: a PCRE construct that no linear-time engine supports, or the
 * engine's own message.
 */
function faultOf(pattern: string, message: string): string {
  if (/\(\?<?[=!]/.test(pattern)) return "lookahead and lookbehind are not supported";
  if (/\\[1-9]/.test(pattern)) return "back references are not supported";
  if (/\(\?>|[*+?}]\+/.test(pattern))
    return "atomic groups and possessive quantifiers are not supported";
  return message.replace(/^error parsing regexp: /, "");
}
