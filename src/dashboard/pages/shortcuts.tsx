/** Keyboard shortcuts of the list of jobs. */
import { useEffect, useState } from "preact/hooks";
import { Dialog, DialogButtons } from "../components/dialog.tsx";
import { SEARCH_BOX_ID } from "./job-filters.tsx";

const SHORTCUTS = [
  ["/", "Search by name"],
  ["j", "Next job"],
  ["k", "Previous job"],
  ["?", "Show these shortcuts"],
] as const;

/**
 * Handles the keyboard shortcuts, and lists them on request. `onStep` moves the focus by a number
 * of rows.
 */
export function Shortcuts({ onStep }: { onStep: (step: number) => void }) {
  const [isShown, setIsShown] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const actions: Readonly<Record<string, () => void>> = {
        "/": () => document.getElementById(SEARCH_BOX_ID)?.focus(),
        j: () => onStep(1),
        k: () => onStep(-1),
        "?": () => setIsShown(true),
      };
      const action = actions[event.key];
      if (action === undefined) return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [onStep]);
  if (!isShown) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => setIsShown(false)}>
      <dl class="shortcuts">
        {SHORTCUTS.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <DialogButtons leave="Close" onLeave={() => setIsShown(false)} />
    </Dialog>
  );
}

/** Whether a field has the focus or a dialog is open. Keys are then not treated as shortcuts. */
function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : undefined;
  const isField = element?.matches("input:not([type=checkbox]), select, textarea") ?? false;
  return isField || document.querySelector("dialog[open]") !== null;
}
