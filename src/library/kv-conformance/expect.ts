/** Expectations on `node:assert`, so that the suite needs no test runner. */
import assert from "node:assert/strict";

interface Rejections {
  toBe(error: unknown): Promise<void>;
  /** Compares members; a regular expression matches a string. */
  toMatchObject(members: Readonly<Record<string, unknown>>): Promise<void>;
  toThrow(message?: string): Promise<void>;
}

export interface Expectations {
  toBe(expected: unknown): void;
  toEqual(expected: unknown): void;
  toBeUndefined(): void;
  toBeGreaterThan(bound: number): void;
  toBeGreaterThanOrEqual(bound: number): void;
  toBeLessThanOrEqual(bound: number): void;
  toContain(item: unknown): void;
  toHaveLength(length: number): void;
  readonly rejects: Rejections;
}

/** Expectations on a value. `what` is the message of a failure. */
export function expect(actual: unknown, what?: string): Expectations {
  return {
    toBe: (expected) => assert.equal(actual, expected, what),
    toEqual: (expected) => assert.deepEqual(plain(actual), plain(expected), what),
    toBeUndefined: () => assert.equal(actual, undefined),
    toBeGreaterThan: (bound) => assert.ok(Number(actual) > bound, `${actual} > ${bound}`),
    toBeGreaterThanOrEqual: (bound) => assert.ok(Number(actual) >= bound, `${actual} >= ${bound}`),
    toBeLessThanOrEqual: (bound) => assert.ok(Number(actual) <= bound, `${actual} <= ${bound}`),
    toContain: (item) => assert.ok((actual as unknown[]).includes(item), `contains ${item}`),
    toHaveLength: (length) => assert.equal((actual as unknown[]).length, length),
    rejects: {
      toBe: async (error) => assert.equal(await rejection(actual), error),
      async toMatchObject(members) {
        const error = (await rejection(actual)) as Readonly<Record<string, unknown>>;
        for (const [name, expected] of Object.entries(members)) {
          if (expected instanceof RegExp) assert.match(String(error[name]), expected);
          else assert.deepEqual(error[name], expected);
        }
      },
      async toThrow(message = "") {
        const error = await rejection(actual);
        assert.ok(error instanceof Error && error.message.includes(message), String(error));
      },
    },
  };
}

async function rejection(promise: unknown): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  assert.fail("expected a rejection");
}

/** Converts buffers to plain byte arrays, so that their contents are compared. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
}
