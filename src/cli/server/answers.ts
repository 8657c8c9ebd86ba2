/**
 * Checks a server's responses before they are used: other servers may respond with JSON as well.
 */

type Kind = "array" | "boolean" | "number" | "object" | "string";

/** The server responded with JSON, but not as a Tandem does. */
export class ForeignAnswerError extends Error {
  override readonly name = "ForeignAnswerError";

  /** `expected` describes the missing part. */
  constructor(expected: string, options?: ErrorOptions) {
    super(`unexpected answer, is the server a Tandem? Expected ${expected}`, options);
  }
}

/**
 * The response as an object with these members. The caller asserts the rest of its type. Throws a
 * ForeignAnswerError if it does not match.
 */
export function answerWith<T>(answer: unknown, members: Readonly<Record<string, Kind>>): T {
  if (kindOf(answer) !== "object") throw new ForeignAnswerError("an object");
  const given = answer as Readonly<Record<string, unknown>>;
  for (const [name, kind] of Object.entries(members)) {
    if (kindOf(given[name]) !== kind) {
      throw new ForeignAnswerError(`an object with \`${name}\`, which is of type ${kind}`);
    }
  }
  return answer as T;
}

/** The response as a string. Throws a ForeignAnswerError if it is not one. */
export function textAnswer(answer: unknown): string {
  if (typeof answer !== "string") throw new ForeignAnswerError("a text");
  return answer;
}

/** Prints that a server did what was requested. */
export function printOk(answer: unknown): string {
  answerWith(answer, { ok: "boolean" });
  return "done\n";
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
