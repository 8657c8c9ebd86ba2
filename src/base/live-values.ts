/** Objects whose members must be read again at each use, such as settings that can change. */

const LIVE = Symbol("live");

/** Makes `{...live}` throw an error, because the copy would not reflect later changes. */
export function forbidCopies<T extends object>(live: T): T {
  return Object.defineProperty(live, LIVE, {
    enumerable: true,
    get() {
      throw new TypeError(
        "A live value must not be copied, because the copy would not change with it",
      );
    },
  });
}

/** Returns a snapshot of the current values. */
export function valuesNow<T extends object>(live: T): T {
  return Object.fromEntries(Object.entries(live)) as T;
}
