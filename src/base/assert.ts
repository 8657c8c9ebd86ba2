/**
 * The error for a broken invariant. Invariants are also checked in production, so that wrong data
 * is not stored.
 */

export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Throws an AssertionError if `condition` is false; `message` states the invariant. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
