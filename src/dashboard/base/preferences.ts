/** The user's preferences, stored in the browser if the browser permits storage. */
import { useState } from "preact/hooks";

export function usePreference<Value extends string>(
  name: string,
  values: readonly Value[],
): readonly [Value, (value: Value) => void] {
  const [value, setValue] = useState<Value>(() => read(name, values));
  const choose = (chosen: Value) => {
    setValue(chosen);
    try {
      localStorage.setItem(`tandem.${name}`, chosen);
    } catch {
      // The browser forbids storage: the choice is lost when the page is closed.
    }
  };
  return [value, choose];
}

/** Reads a preference. `values` are the accepted values; the first one is the default. */
function read<Value extends string>(name: string, values: readonly Value[]): Value {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(`tandem.${name}`);
  } catch {
    // The browser forbids storage: the default applies.
  }
  return values.find((value) => value === kept) ?? (values[0] as Value);
}
