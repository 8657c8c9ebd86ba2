/** Rules for the wording of comments. */

/** Layers whose comments must follow the rules in this file. */
export const PLAIN_LAYERS: ReadonlySet<string> = new Set([
  "api",
  "base",
  "cli",
  "client",
  "contract",
  "dashboard",
  "databases",
  "documents",
  "host",
  "http-client",
  "indexes",
  "jobs",
  "kv",
  "library",
  "protocol",
  "replicator",
  "server",
]);

/** Folders outside `src/` whose comments follow the rules. */
export const PLAIN_FOLDERS: readonly string[] = ["bench", "test", "tools"];

const COLUMNS_MAX = 100;

/**
 * Words that must not open a comment, because the subject then comes late. A comment opens with a
 * noun.
 */
const OPENING = /^(Of|So many|So much|Who|Whoever|What)\b/;
const WORDS = /\b((?:is|are) none|nobody|somebody|anew)\b|undefined:/i;

/**
 * A comment on one line, or a line of a longer one. Group 1 is set on the first line of a block.
 */
const COMMENT = /^\s*(?:(\/\*\*?)|\/\/|\*(?!\/))\s?(.*?)(?:\*\/)?$/;

/** Problems with the comments of one file, as `[line, problem]`; lines count from 1. */
export function commentProblems(text: string): [line: number, problem: string][] {
  const problems: [number, string][] = [];
  let isInside = false;
  for (const [index, line] of text.split("\n").entries()) {
    const match = COMMENT.exec(line);
    if (match === null) {
      isInside = false;
      continue;
    }
    const [, begin, words = ""] = match;
    const isFirst = !isInside && (begin === undefined || words.trim() !== "");
    // In a block of several lines, the text begins on the second line.
    isInside = begin === undefined || words.trim() !== "";
    const report = (problem: string): void => {
      problems.push([index + 1, problem]);
    };
    if (line.length > COLUMNS_MAX) report(`a comment of more than ${COLUMNS_MAX} columns`);
    const opening = isFirst ? OPENING.exec(words)?.[0] : undefined;
    if (opening !== undefined) report(`a comment that opens with "${opening}": open with the noun`);
    const word = WORDS.exec(words)?.[0];
    if (word !== undefined) report(`"${word}" in a comment: name the thing`);
  }
  return problems;
}
