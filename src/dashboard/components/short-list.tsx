/** A list of names or reasons in a box that scrolls. */
import type { ComponentChildren } from "preact";

export function ShortList({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // Scrollable with the keyboard.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to take the focus
    <ul class="names" tabIndex={0} aria-label={label}>
      {children}
    </ul>
  );
}
