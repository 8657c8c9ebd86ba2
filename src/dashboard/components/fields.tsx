/** Fields of long forms, each with a label and an explanation. */
import type { ComponentChildren } from "preact";

/** A group of related fields. */
export function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <fieldset class="panel">
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}

export function TextField({
  label,
  value,
  note,
  isFixed = false,
  isOptional = false,
  isNumber = false,
  isOfLogin: isLogin = false,
  onChange,
}: {
  label: string;
  value: string;
  note?: string;
  isFixed?: boolean;
  isOptional?: boolean;
  isNumber?: boolean;
  /** Whether the field holds a user or secret, which takes effect only when typing has ended. */
  isOfLogin?: boolean;
  onChange: (value: string) => void;
}) {
  return (
    <label class="field">
      {label}
      <input
        value={value}
        data-login={isLogin ? "" : undefined}
        required={!isOptional}
        readOnly={isFixed}
        inputMode={isNumber ? "numeric" : "text"}
        autoComplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
      {note !== undefined && <span class="section-note">{note}</span>}
    </label>
  );
}

export function AreaField({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}) {
  return (
    <label class="field">
      {label}
      <textarea
        rows={4}
        spellcheck={false}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}

export function CheckField({
  label,
  note,
  value,
  onChange,
}: {
  label: string;
  note: string;
  value: boolean;
  onChange: (value: boolean) => void;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={value}
        onChange={({ currentTarget }) => onChange(currentTarget.checked)}
      />
      <span>
        {label} <span class="section-note">{note}</span>
      </span>
    </label>
  );
}
