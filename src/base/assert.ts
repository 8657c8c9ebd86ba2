/** Assertions stay on in production: a broken invariant stops the work at hand before it can be stored. */

export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Throws when `condition` is false; `message` states what should have held. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
