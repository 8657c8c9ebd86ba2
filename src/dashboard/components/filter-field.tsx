/**
 * Text field of a filter whose value is part of the address. The typed text survives renders of the
 * page, and is committed, trimmed, when the user presses Enter or leaves the field.
 */
import { useState } from "preact/hooks";

export function FilterField({
  label,
  value,
  onCommit,
  ...attributes
}: {
  label: string;
  value: string;
  onCommit: (value: string) => void;
  id?: string;
  placeholder?: string;
  inputMode?: "numeric" | "text";
}) {
  const [typed, setTyped] = useState({ over: value, text: value });
  return (
    <label class="field">
      {label}
      <input
        type="search"
        {...attributes}
        value={typed.over === value ? typed.text : value}
        onInput={({ currentTarget }) => setTyped({ over: value, text: currentTarget.value })}
        onChange={({ currentTarget }) => onCommit(currentTarget.value.trim())}
      />
    </label>
  );
}
