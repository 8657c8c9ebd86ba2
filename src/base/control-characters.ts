/**
 * Characters that control a terminal or the display order of text: C0 except tab and line feed,
 * DEL, C1, and the Unicode bidirectional controls.
 */
const CONTROLS = /(?![\t\n])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Replaces control characters by `\u001b` escapes, which keeps the meaning of JSON. */
export function escapeControls(text: string): string {
  return text.replace(CONTROLS, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
