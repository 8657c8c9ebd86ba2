/** Fields of long forms, each with its label, an explanation, and its error. */
import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useId, useRef, useState } from "preact/hooks";
import { DOCUMENT_OPTIONS, type Option } from "../../contract/index.ts";
import { hintOf, labelOf } from "../base/field-labels.ts";
import { Foreign } from "./text.tsx";

const Errors = createContext<ReadonlyMap<string, string>>(new Map());

/** Provides error messages, by field name, to the fields inside. */
export const FieldErrors = Errors.Provider;

/**
 * Returns a ref for a form, and a function that waits for the next render and then moves the focus
 * to the form's first field with an error.
 */
export function useFirstError() {
  const form = useRef<HTMLFormElement>(null);
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (count === 0) return;
    const field = form.current?.querySelector<HTMLElement>("[aria-invalid='true']");
    const folded = field?.closest("details");
    if (folded != null) folded.open = true;
    field?.focus();
  }, [count]);
  return { form, focusFirstError: () => setCount((before) => before + 1) };
}

/** A group of related fields. */
export function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <fieldset class="panel">
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}

/** A group of fields that most users leave as they are. */
export function FoldedPart({
  title,
  isOpen = false,
  children,
}: {
  title: string;
  /** Whether the part is open at first, because it has values. */
  isOpen?: boolean;
  children: ComponentChildren;
}) {
  const wasOpen = useRef(isOpen);
  return (
    <details class="panel" open={wasOpen.current}>
      <summary>{title}</summary>
      <fieldset>
        <legend class="hidden">{title}</legend>
        {children}
      </fieldset>
    </details>
  );
}

/** Properties of every field. */
interface FieldProps<Value> {
  /** The member that the field sets, which determines its label. */
  readonly field: string;
  /** Label, if it differs from that of the member. */
  readonly label?: string;
  readonly note?: string;
  /** Name of a member without an input of its own. Its errors are shown at this input. */
  readonly also?: string | undefined;
  readonly value: Value;
  readonly onChange: (value: Value) => void;
}

interface ControlAttributes {
  readonly id: string;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby": string | undefined;
}

function Field({
  field,
  label = labelOf(field),
  note,
  also = "",
  isCheck = false,
  children,
}: Omit<FieldProps<unknown>, "value" | "onChange"> & {
  isCheck?: boolean;
  children: (attributes: ControlAttributes) => ComponentChildren;
}) {
  const id = useId();
  const errors = useContext(Errors);
  const error = errors.get(field) ?? errors.get(also);
  const hint = hintOf(field);
  const described = [note && `${id}-note`, error && `${id}-error`].filter(Boolean).join(" ");
  const control = children({
    id,
    "aria-invalid": error !== undefined,
    "aria-describedby": described === "" ? undefined : described,
  });
  return (
    <div class="field">
      <div class={isCheck ? "check" : "field"}>
        {isCheck && control}
        <label for={id}>
          {label}
          {hint !== undefined && <code class="hint"> {hint}</code>}
        </label>
        {!isCheck && control}
      </div>
      {note && (
        <span id={`${id}-note`} class="section-note">
          {note}
        </span>
      )}
      {error !== undefined && (
        <span id={`${id}-error`} class="bad">
          <Foreign text={error} />
        </span>
      )}
    </div>
  );
}

export function TextField({
  value,
  placeholder,
  isFixed = false,
  isNumber = false,
  isSecret = false,
  isOfLogin = false,
  onChange,
  ...labels
}: FieldProps<string> & {
  placeholder?: string;
  isFixed?: boolean;
  isNumber?: boolean;
  isSecret?: boolean;
  /**
   * Whether the field holds a user name or secret, which is not checked before typing has ended.
   */
  isOfLogin?: boolean;
}) {
  return (
    <Field {...labels}>
      {(attributes) => {
        const input = {
          ...attributes,
          value,
          placeholder,
          "data-login": isOfLogin ? "" : undefined,
          readOnly: isFixed,
          spellcheck: false,
          onInput: ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) =>
            onChange(currentTarget.value),
        };
        if (isSecret) return <input {...input} type="password" autoComplete="new-password" />;
        return <input {...input} inputMode={isNumber ? "numeric" : "text"} autoComplete="off" />;
      }}
    </Field>
  );
}

export function AreaField({
  value,
  rows = 4,
  placeholder,
  onChange,
  ...labels
}: FieldProps<string> & { rows?: number; placeholder?: string }) {
  return (
    <Field {...labels}>
      {(attributes) => (
        <textarea
          {...attributes}
          rows={rows}
          placeholder={placeholder}
          spellcheck={false}
          value={value}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function CheckField({ value, onChange, ...labels }: FieldProps<boolean>) {
  return (
    <Field {...labels} isCheck>
      {(attributes) => (
        <input
          {...attributes}
          type="checkbox"
          checked={value}
          onChange={({ currentTarget }) => onChange(currentTarget.checked)}
        />
      )}
    </Field>
  );
}

export function SelectField<Value extends string>({
  value,
  choices,
  onChange,
  ...labels
}: FieldProps<Value> & { choices: readonly (readonly [value: Value, words: string])[] }) {
  return (
    <Field {...labels}>
      {(attributes) => (
        <select
          {...attributes}
          value={value}
          onChange={({ currentTarget }) => onChange(currentTarget.value as Value)}
        >
          {choices.map(([choice, words]) => (
            <option key={choice} value={choice}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Fields for the options of a replication. An empty field stands for the default. */
export function OptionFields({
  values,
  onChange,
}: {
  values: Readonly<Record<string, string>>;
  onChange: (values: Readonly<Record<string, string>>) => void;
}) {
  return (
    <>
      {DOCUMENT_OPTIONS.map((option) => (
        <OptionField
          key={option.name}
          option={option}
          value={values[option.name] ?? ""}
          onChange={(value) => onChange({ ...values, [option.name]: value })}
        />
      ))}
    </>
  );
}

function OptionField({
  option,
  value,
  onChange,
}: {
  option: Option;
  value: string;
  onChange: (value: string) => void;
}) {
  const { name, label, meaning } = option;
  const field = { field: name, note: meaning.replaceAll("`", ""), value, onChange };
  if (option.kind === "integer") {
    const unit = option.unit === undefined ? "" : `, ${option.unit}`;
    const placeholder = String(option.default);
    return <TextField {...field} label={label + unit} placeholder={placeholder} isNumber />;
  }
  const words = option.kind === "boolean" ? ["true", "false"] : option.choices;
  const choices = words.map((word) => [word, word] as const);
  return <SelectField {...field} choices={[["", `default (${option.default})`], ...choices]} />;
}
