/** A list of names or reasons in a box that scrolls. */
import type { ComponentChildren } from "preact";

export function ShortList({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls only a focused region
    <ul class="names" tabIndex={0} aria-label={label}>
      {children}
    </ul>
  );
}
