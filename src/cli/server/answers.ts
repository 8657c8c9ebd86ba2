/** Looks at the answers of a server before they are used: what is no Tandem may answer with JSON, too. */

type Kind = "array" | "boolean" | "number" | "object" | "string";

/** The server answered with JSON, but not as a Tandem does. */
export class ForeignAnswerError extends Error {
  override readonly name = "ForeignAnswerError";

  /** `expected` says what should have been there. */
  constructor(expected: string, options?: ErrorOptions) {
    super(`the server does not answer as a Tandem does: expected ${expected}`, options);
  }
}

/** The answer as an object with these members, which the caller knows more of. Throws a ForeignAnswerError where it is none. */
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

/** The answer as a text. Throws a ForeignAnswerError where it is none. */
export function textAnswer(answer: unknown): string {
  if (typeof answer !== "string") throw new ForeignAnswerError("a text");
  return answer;
}

/** Prints that a server did what it was asked for. */
export function printOk(answer: unknown): string {
  answerWith(answer, { ok: "boolean" });
  return "done\n";
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
