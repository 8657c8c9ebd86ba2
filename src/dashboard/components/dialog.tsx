/** A question in front of the page: the browser's own dialog, which holds the focus and closes with Escape. */
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  /** Undefined: it stays until it is taken away. */
  onClose?: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Before the page is painted, and before what is loaded next can take the focus from what was pressed.
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    // The browser gives the focus back only where the dialog closes itself; and while it is there, nothing behind it takes the focus.
    return () =>
      queueMicrotask(() => {
        if (before instanceof HTMLElement) before.focus();
      });
  }, []);
  // The browser would close the dialog now and tell of it later: what is pressed in between would be lost.
  const leave = (event: Event) => {
    if (!event.cancelable) return;
    event.preventDefault();
    onClose?.();
  };
  // Some browsers close it nevertheless when they are asked to twice.
  const stay = () => element.current?.showModal();
  return (
    <dialog ref={element} aria-labelledby={titleId} onCancel={leave} onClose={onClose ?? stay}>
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}
