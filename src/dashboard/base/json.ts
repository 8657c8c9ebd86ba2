/** JSON for display. Numbers keep the form in which they were written. */
import { isJsonObject, printJson } from "../../base/index.ts";
import { UNSEEN } from "./format.ts";

/**
 * Formats a value as indented JSON. Escapes characters that are invisible or change the text
 * direction.
 */
export function visibleJson(value: unknown): string {
  return indented(value, "\n").replace(UNSEEN, (char) =>
    char === "\n" ? char : char.replace(/./gs, escaped),
  );
}

/** Formats a value. `margin` is a line break followed by the indentation of the value. */
function indented(value: unknown, margin: string): string {
  const inner = `${margin}  `;
  const items = Array.isArray(value)
    ? value.map((item) => indented(item ?? null, inner))
    : isJsonObject(value)
      ? Object.entries(value)
          .filter(([, item]) => item !== undefined)
          .map(([name, item]) => `${JSON.stringify(name)}: ${indented(item, inner)}`)
      : [];
  if (items.length === 0) return printJson(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}${inner}${items.join(`,${inner}`)}${margin}${close}`;
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
