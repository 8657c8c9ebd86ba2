/**
 * Checks the format of responses before they are used, because servers other than Tandem also
 * respond with JSON.
 */
import type { Method } from "../../client/index.ts";

type Kind = "array" | "boolean" | "number" | "object" | "string";

/** Thrown if the response is JSON but not in the format of Tandem. */
export class ForeignAnswerError extends Error {
  override readonly name = "ForeignAnswerError";

  /** `expected` describes what the response lacks. */
  constructor(expected: string, options?: ErrorOptions) {
    super(`unexpected response: expected ${expected}; is this a Tandem server?`, options);
  }
}

/**
 * Returns the response as an object. Throws a ForeignAnswerError if a member is missing or has
 * another type than in `members`. The contents of arrays and objects are not checked.
 */
export function answerWith<T>(answer: unknown, members: Readonly<Record<string, Kind>>): T {
  if (kindOf(answer) !== "object") throw new ForeignAnswerError("an object");
  const given = answer as Readonly<Record<string, unknown>>;
  for (const [name, kind] of Object.entries(members)) {
    if (kindOf(given[name]) !== kind) {
      throw new ForeignAnswerError(`an object whose \`${name}\` is of type ${kind}`);
    }
  }
  return answer as T;
}

export interface Server {
  /** Returns the response. Throws if the response is an error, or if no response arrives. */
  ask(method: Method, path: string, body?: unknown): Promise<unknown>;
}

/** The response as a string. Throws a ForeignAnswerError if the response is not a string. */
export function textAnswer(answer: unknown): string {
  if (typeof answer !== "string") throw new ForeignAnswerError("a text");
  return answer;
}

/** Printer for commands without output: confirms that the server did what was requested. */
export function printOk(answer: unknown): string {
  answerWith(answer, { ok: "boolean" });
  return "done\n";
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
