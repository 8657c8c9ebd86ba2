/** Field for the optional reason of a decision. */
import { WHY_LENGTH_MAX } from "../api/limits.ts";

export function WhyField({
  value,
  onChange,
}: {
  value: string;
  onChange: (value: string) => void;
}) {
  return (
    <label class="field">
      Reason (kept in the log)
      <input
        value={value}
        maxLength={WHY_LENGTH_MAX}
        autoComplete="off"
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}
