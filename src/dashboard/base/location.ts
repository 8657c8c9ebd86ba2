/** The current view, taken from the address. */
import { useEffect, useState } from "preact/hooks";
import { parseView, type View } from "./view.ts";

export function goTo(link: string): void {
  window.location.hash = link;
}

export function useView(): View {
  const [hash, setHash] = useState(window.location.hash);
  useEffect(() => {
    const follow = () => setHash(window.location.hash);
    window.addEventListener("hashchange", follow);
    // Reads the address again, because it might have changed since the first render.
    follow();
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return parseView(hash);
}
