/** JSON for display and input. Pure. */
import { UNSEEN } from "./format.ts";

/** Indented, with escapes for invisible characters and those that change the text direction. */
export function visibleJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(UNSEEN, (char) =>
    char === "\n" ? char : char.replace(/./gs, escaped),
  );
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** The first number in a JSON text that JavaScript cannot represent exactly. */
export function inexactNumber(text: string): string | undefined {
  const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi);
  return numbers?.find((number) => plainNumber(number) !== plainNumber(String(Number(number))));
}

/** `-15e2` for `-1.50e3`: a canonical form for all spellings of a number. */
function plainNumber(number: string): string {
  const parts = /^(-?)0*(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(number);
  if (parts === null) return number;
  const [, sign = "", whole = "", fraction = "", power = "0"] = parts;
  const digits = (whole + fraction).replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  const exponent = Number(power) - fraction.length + digits.length - kept.length;
  return kept === "" ? "0" : `${sign}${kept}e${exponent}`;
}
