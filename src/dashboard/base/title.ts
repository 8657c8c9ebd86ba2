/** Title of the browser tab, which distinguishes tabs and bookmarks. */
import { useEffect } from "preact/hooks";
import { visibleText } from "./format.ts";

/** Sets the title from its parts, the most specific first. Empty parts are left out. */
export function useTitle(...parts: readonly (string | undefined)[]): void {
  const title = titleOf(parts);
  useEffect(() => {
    document.title = title;
  }, [title]);
}

function titleOf(parts: readonly (string | undefined)[]): string {
  return [...parts, "Tandem"].flatMap((part) => (part ? [visibleText(part)] : [])).join(" – ");
}
