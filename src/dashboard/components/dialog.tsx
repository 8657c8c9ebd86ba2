/** Modal dialog: the browser's own, which keeps the focus and closes with Escape. */
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  /** Called on close; without it, the dialog stays until it is removed. */
  onClose?: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Before painting, and before subsequent content can take the focus from the button that was
  // pressed.
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    // The browser restores the focus only if the dialog closes by itself; while it is open, no
    // element behind it can be focused.
    return () =>
      queueMicrotask(() => {
        if (before instanceof HTMLElement) before.focus();
      });
  }, []);
  // The browser would close the dialog now and report it later, and input in between would be lost.
  const leave = (event: Event) => {
    if (!event.cancelable) return;
    event.preventDefault();
    onClose?.();
  };
  // Some browsers close it anyway on a second request.
  const stay = () => element.current?.showModal();
  return (
    <dialog ref={element} aria-labelledby={titleId} onCancel={leave} onClose={onClose ?? stay}>
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}
