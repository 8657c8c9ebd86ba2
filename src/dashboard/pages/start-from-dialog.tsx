/** Restarts a job at an update sequence of its source. */
import { useState } from "preact/hooks";
import { client } from "../api/request.ts";
import { useSurroundings } from "../base/context.ts";
import { sequenceOf } from "../base/replication-form.ts";
import { Dialog, DialogButtons } from "../components/dialog.tsx";
import { Problem } from "../components/text.tsx";
import { WhyField } from "../components/why-field.tsx";

export function StartFromDialog({
  name,
  onClose,
}: {
  /** Name of the job. */
  name: string;
  /** Called when the dialog closes. `isDone`: the job has changed. */
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const [since, setSince] = useState("");
  const [why, setWhy] = useState("");
  const [error, setError] = useState<unknown>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setError(undefined);
    try {
      await client.jobs.startFrom(name, sequenceOf(since), { why: why.trim() || undefined });
      announce(`Job restarted from ${since.trim()}`);
      onClose(true);
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <Dialog title="Start from a sequence" onClose={() => onClose(false)}>
      <form onSubmit={(event) => void submit(event)}>
        <p>
          The job ignores its checkpoints and starts from this sequence or time. Earlier changes are
          not copied, and statistics are reset.
        </p>
        <label class="field">
          Update sequence of the source, or a time such as 2026-01-31T23:59:59Z
          <input
            required
            value={since}
            autoComplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setSince(currentTarget.value)}
          />
        </label>
        <WhyField value={why} onChange={setWhy} />
        <Problem error={error} />
        <DialogButtons leave="Keep the checkpoint" onLeave={() => onClose(false)}>
          <button type="submit" class="danger">
            Start job
          </button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}
