/** Sets or removes the budget of a server or of an account on it. */
import { useState } from "preact/hooks";
import type { BudgetRow } from "../../contract/index.ts";
import { BUDGET_DIRECTIONS, BUDGET_LIMITS } from "../api/budget.ts";
import { client } from "../api/request.ts";
import { budgetOf, budgetText } from "../base/budget-text.ts";
import { useSurroundings } from "../base/context.ts";
import { Dialog, DialogButtons } from "../components/dialog.tsx";
import { Problem } from "../components/text.tsx";

export function BudgetDialog({
  budget,
  isNew,
  onClose,
}: {
  /** The existing budget, or the initial values of a new one. */
  budget: BudgetRow;
  isNew: boolean;
  /** Called when the dialog closes. `isDone`: the budget has changed. */
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const [error, setError] = useState<unknown>();
  const attempt = async (change: () => Promise<string>) => {
    setError(undefined);
    try {
      announce(await change());
      onClose(true);
    } catch (failure) {
      setError(failure);
    }
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const textOf = (field: string): string => String(form.get(field) ?? "");
    const wanted = budgetOf(textOf);
    const name = textOf("name").trim();
    void attempt(async () => {
      await client.budgets.put(name, wanted);
      return `Budget of ${name} saved: ${budgetText(wanted)}`;
    });
  };
  const remove = async () => {
    await client.budgets.remove(budget.name);
    return `Budget of ${budget.name} removed`;
  };
  return (
    <Dialog title={isNew ? "Add a budget" : "Edit a budget"} onClose={() => onClose(false)}>
      <form onSubmit={submit}>
        <p>
          Limits the requests that all jobs on all nodes together send to this server. An empty
          field means no limit. A change takes effect on every node immediately.
        </p>
        <label class="field">
          Host or account@host
          <input
            name="name"
            required
            readOnly={!isNew}
            defaultValue={budget.name}
            autoComplete="off"
          />
        </label>
        {BUDGET_DIRECTIONS.map((direction) => (
          <fieldset key={direction} class="limits">
            <legend>{direction}</legend>
            {BUDGET_LIMITS.map(([limit, unit]) => (
              <label key={limit} class="field">
                {unit}
                <input
                  name={`${direction}.${limit}`}
                  type="number"
                  min="0"
                  step="any"
                  defaultValue={String(budget[direction][limit] ?? "")}
                  autoComplete="off"
                />
              </label>
            ))}
          </fieldset>
        ))}
        <Problem error={error} />
        <DialogButtons leave="Keep as it is" onLeave={() => onClose(false)}>
          {!isNew && (
            <button type="button" class="danger" onClick={() => void attempt(remove)}>
              Remove
            </button>
          )}
          <button type="submit" class="primary">
            Set
          </button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}
