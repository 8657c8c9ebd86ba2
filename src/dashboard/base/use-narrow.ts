/** Whether the window is narrow, as on a phone. Lists then come before everything else. */
import { useEffect, useState } from "preact/hooks";

/** Media query for narrow windows. Must match the style sheets. */
const NARROW = "(max-width: 900px)";

export function useIsNarrow(): boolean {
  const [isNarrow, setIsNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const follow = () => setIsNarrow(media.matches);
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  return isNarrow;
}
