/** A list of names or reasons in its own box, which scrolls where they are long. */
import type { ComponentChildren } from "preact";

export function ShortList({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // It can be scrolled by keys as well.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to take the focus
    <ul class="names" tabIndex={0} aria-label={label}>
      {children}
    </ul>
  );
}
