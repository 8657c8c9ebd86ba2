/** Sets or resets one setting of a node. The node validates the value. */
import { useId, useState } from "preact/hooks";
import type { SettingRow } from "../../contract/index.ts";
import {
  defaultOf,
  HIDDEN_VALUE,
  readSettings,
  resetSetting,
  setSetting,
  withUnit,
} from "../api/settings.ts";
import { useSurroundings } from "../base/context.ts";
import { Dialog, DialogButtons } from "../components/dialog.tsx";
import { Foreign, Problem } from "../components/text.tsx";

export function SettingDialog({
  node,
  setting,
  onChange,
  onClose,
}: {
  /** Name of the node. */
  node: string;
  setting: SettingRow;
  /** Called after the setting was changed. */
  onChange: () => void;
  onClose: () => void;
}) {
  const { announce } = useSurroundings();
  const id = useId();
  const { section, key, value: before, default: fallback, meaning, values, unit, live } = setting;
  const isSecret = before === HIDDEN_VALUE;
  const [value, setValue] = useState(isSecret ? "" : (before ?? fallback ?? ""));
  const [isAsking, setIsAsking] = useState(false);
  const [error, setError] = useState<unknown>();

  const undo = async () => {
    try {
      if (before === null) await resetSetting(node, setting);
      else await setSetting(node, setting, before);
      announce(await outcomeOf(setting));
    } catch (failure) {
      announce(`Undo failed: ${failure instanceof Error ? failure.message : String(failure)}`);
    }
    onChange();
  };
  const attempt = async (change: () => Promise<void>) => {
    setIsAsking(true);
    setError(undefined);
    try {
      await change();
      // A secret has no undo, because its previous value is unknown.
      announce(await outcomeOf(setting), isSecret ? undefined : () => void undo());
      onChange();
      onClose();
    } catch (failure) {
      setError(failure);
    } finally {
      setIsAsking(false);
    }
  };
  const field = {
    id,
    value,
    autoComplete: "off",
    spellcheck: false,
    onInput: ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) =>
      setValue(currentTarget.value),
  };
  return (
    <Dialog title={`[${section}] ${key}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void attempt(() => setSetting(node, setting, value));
        }}
      >
        <p>
          Saved in local.ini of node <Foreign text={node} />.{" "}
          {live ? "A change takes effect immediately." : "A change takes effect after a restart."}
        </p>
        {meaning !== null && <p>{meaning}</p>}
        {values !== null && (
          <p>
            Values: {values}
            {unit !== null && ` (${unit})`}
          </p>
        )}
        <p>
          Default: <Foreign text={defaultOf(setting)} />
        </p>
        <div class="field">
          <label for={id}>Value</label>
          {isSecret ? <input type="password" {...field} /> : <input type="text" {...field} />}
          {isSecret && <span class="section-note">The secret is not shown. Enter a new one.</span>}
        </div>
        <Problem error={error} />
        <DialogButtons leave="Keep as it is" onLeave={onClose}>
          <button
            type="button"
            class={fallback === null ? "danger" : ""}
            disabled={isAsking || before === null}
            onClick={() => void attempt(() => resetSetting(node, setting))}
          >
            {fallback === null ? "Remove" : "Reset to the default"}
          </button>
          <button type="submit" class="primary" disabled={isAsking}>
            Set
          </button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}

/** Describes the value in effect. After a reset, it can come from files or the environment. */
async function outcomeOf({ section, key }: SettingRow): Promise<string> {
  const { settings } = await readSettings();
  const found = settings.find((setting) => setting.section === section && setting.key === key);
  const name = `[${section}] ${key}`;
  if (found === undefined) return `${name} is not set`;
  const { value } = found;
  if (value === null) return `${name} has its default value: ${defaultOf(found)}`;
  return `${name} is set to ${value === "" ? "nothing" : withUnit(value, found)}`;
}
