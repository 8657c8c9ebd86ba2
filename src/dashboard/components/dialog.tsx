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
  // A layout effect, so that the dialog opens before it is painted, and before other content can
  // take the focus from the button that was pressed.
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    // The browser restores the focus only if the dialog is closed with `close()`, not if it is
    // removed. The focus is set later, because no element behind an open dialog can be focused.
    return () =>
      queueMicrotask(() => {
        if (before instanceof HTMLElement) before.focus();
      });
  }, []);
  // Prevents the browser from closing the dialog itself: the `close` event would follow later, and
  // input in between would be lost.
  const leave = (event: Event) => {
    if (!event.cancelable) return;
    event.preventDefault();
    onClose?.();
  };
  // Reopens the dialog: some browsers close it when Esc is pressed a second time.
  const stay = () => element.current?.showModal();
  return (
    <dialog ref={element} aria-labelledby={titleId} onCancel={leave} onClose={onClose ?? stay}>
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}

/** The last row of a dialog: the button that closes it, then any other buttons. */
export function DialogButtons({
  leave,
  onLeave,
  children,
}: {
  leave: string;
  onLeave: () => void;
  children?: ComponentChildren;
}) {
  return (
    <div class="dialog-buttons">
      <button type="button" onClick={onLeave}>
        {leave}
      </button>
      {children}
    </div>
  );
}
