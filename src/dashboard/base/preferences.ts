/** What a user has chosen, kept in the browser. A browser that keeps nothing forgets it. */
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
      // For this page alone.
    }
  };
  return [value, choose];
}

/** The first value is the default. */
function read<Value extends string>(name: string, values: readonly Value[]): Value {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(`tandem.${name}`);
  } catch {
    // A browser that keeps nothing.
  }
  return values.find((value) => value === kept) ?? (values[0] as Value);
}
