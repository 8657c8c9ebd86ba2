/**
 * Regular expressions of users, in an engine whose time grows linearly with the text, so no pattern keeps the server
 * from answering. CouchDB's PCRE gives up after a number of steps instead, and treats the text as one that does not
 * match.
 */
import { RE2JS, RE2JSException } from "re2js";
import { badRequest, type ProtocolError } from "./protocol-error.ts";

/** Why a pattern is not taken: the message names the construct. */
export class PatternError extends Error {
  override readonly name = "PatternError";
}

/** Longer ones are refused. */
const PATTERN_LENGTH_MAX = 10_000;

/** Instructions of a compiled pattern. `(a{1,100}){9}` has some 1,800. */
const PROGRAM_SIZE_MAX = 2_000;

/** Instructions times characters of a text: about 20 ns each at worst, and a hundredth of that for ordinary patterns. */
const STEPS_MAX = 20_000_000;

/** CouchDB's POSIX classes know the letters of all scripts. */
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
 * Whether a text holds what the pattern stands for. Throws a PatternError; the function throws a ProtocolError 400 for a text
 * that is too long for the pattern, in megabytes.
 */
export function compilePattern(pattern: string): (text: string) => boolean {
  const expression = compileExpression(pattern);
  const size = expression.programSize();
  if (size > PROGRAM_SIZE_MAX) {
    throw new PatternError(`it repeats too much: ${size} steps, at most ${PROGRAM_SIZE_MAX}`);
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
    throw new PatternError(`it has ${pattern.length} characters, at most ${PATTERN_LENGTH_MAX}`);
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

/** What PCRE has and the engine lacks, because no engine has it in linear time. */
function faultOf(pattern: string, message: string): string {
  if (/\(\?<?[=!]/.test(pattern)) return "lookahead and lookbehind are not supported";
  if (/\\[1-9]/.test(pattern)) return "back references are not supported";
  if (/\(\?>|[*+?}]\+/.test(pattern))
    return "atomic groups and possessive quantifiers are not supported";
  return message.replace(/^error parsing regexp: /, "");
}
