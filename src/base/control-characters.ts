/**
 * Characters that steer a terminal, or change the order in which it shows others: C0 except tab and line feed, DEL, C1, and bidirectional
 * controls.
 */
const CONTROLS = /(?![\t\n])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** The text with these characters as `\u001b`. JSON keeps its meaning: outside of strings it has none of them. */
export function escapeControls(text: string): string {
  return text.replace(CONTROLS, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
