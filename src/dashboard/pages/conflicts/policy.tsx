/**
 * The policy that resolves the conflicts of a database. Lists the last resolutions, and can undo
 * them.
 */
import { useState } from "preact/hooks";
import type {
  ConflictPolicy,
  ConflictPolicyStatus,
  ResolutionRow,
} from "../../../contract/index.ts";
import { client } from "../../api/request.ts";
import { useIdleFeed, useSurroundings } from "../../base/context.ts";
import { formatCount } from "../../base/format.ts";
import { useLoaded } from "../../base/use-loaded.ts";
import { linkTo } from "../../base/view.ts";
import { Dialog, DialogButtons } from "../../components/dialog.tsx";
import { Cell, type Column, Table } from "../../components/table.tsx";
import { Foreign, Moment, Problem } from "../../components/text.tsx";

/** Number of resolutions that the page shows. */
const RESOLUTIONS_SHOWN_MAX = 20;

const WINNERS: Readonly<Record<ConflictPolicy["resolve"], string>> = {
  last_write: "Last write",
  longest_history: "Longest history",
  remote: "Remote revision",
  function: "JavaScript function",
};
const COLUMNS: readonly Column[] = [
  { name: "Document" },
  { name: "Policy" },
  { name: "Removed leaves" },
  { name: "Time", isNumber: true },
];

export function Resolution({ database, onChange }: { database: string; onChange: () => void }) {
  const { session } = useSurroundings();
  const status = useLoaded(
    (signal) => client.conflicts.policy(database, { signal }),
    `policy ${database}`,
  );
  const page = { limit: RESOLUTIONS_SHOWN_MAX };
  const log = useLoaded(
    (signal) => client.conflicts.resolutions(database, page, { signal }).page(),
    `resolutions ${database}`,
  );
  const [dialog, setDialog] = useState<"policy" | "undo">();
  const reload = () => {
    status.reload();
    log.reload();
  };
  useIdleFeed(reload);
  const close = (isDone: boolean) => {
    setDialog(undefined);
    if (!isDone) return;
    reload();
    onChange();
  };
  const resolutions = log.value?.resolutions ?? [];
  return (
    <section>
      <div class="page-head">
        <h2>Policy</h2>
        {status.value !== undefined && <Summary status={status.value} />}
        {session.changes && status.value !== undefined && (
          <button type="button" onClick={() => setDialog("policy")}>
            Edit policy
          </button>
        )}
        {session.changes && resolutions.length > 0 && (
          <button type="button" onClick={() => setDialog("undo")}>
            Undo all
          </button>
        )}
      </div>
      <Problem error={status.error ?? log.error} />
      {resolutions.length > 0 && <Log database={database} resolutions={resolutions} />}
      {dialog === "policy" && (
        <PolicyDialog
          database={database}
          policy={status.value?.policy ?? undefined}
          onClose={close}
        />
      )}
      {dialog === "undo" && <UndoDialog database={database} onClose={close} />}
    </section>
  );
}

function Summary({ status: { policy } }: { status: ConflictPolicyStatus }) {
  if (policy === null)
    return <span class="section-note">Conflicts stay until you resolve them.</span>;
  return (
    <span class="section-note">
      {WINNERS[policy.resolve]}
      {policy.field !== undefined && (
        <>
          : <Foreign text={policy.field} />
        </>
      )}
    </span>
  );
}

function Log({
  database,
  resolutions,
}: {
  database: string;
  resolutions: readonly ResolutionRow[];
}) {
  return (
    <Table label="Last resolutions" columns={COLUMNS}>
      {resolutions.map(({ id, time, resolve, removed, result }) => (
        <tr key={`${id} ${result}`}>
          <th scope="row">
            <a href={linkTo(["conflicts", database, id])}>
              <Foreign text={id} />
            </a>
          </th>
          <Cell name="Policy">{resolve}</Cell>
          <Cell name="Removed leaves">
            <Foreign text={removed.join(" ")} />
          </Cell>
          <Cell name="Time" isNumber>
            <Moment time={time} />
          </Cell>
        </tr>
      ))}
    </Table>
  );
}

function PolicyDialog({
  database,
  policy,
  onClose,
}: {
  database: string;
  policy: ConflictPolicy | undefined;
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const [resolve, setResolve] = useState<ConflictPolicy["resolve"]>(
    policy?.resolve ?? "last_write",
  );
  const [error, setError] = useState<unknown>();
  const attempt = async (change: () => Promise<unknown>, message: string) => {
    setError(undefined);
    try {
      await change();
      announce(message);
      onClose(true);
    } catch (failure) {
      setError(failure);
    }
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const argument = { last_write: "field", function: "function" }[resolve as string];
    const given = argument === undefined ? {} : { [argument]: String(form.get(argument)) };
    const change = () => client.conflicts.setPolicy(database, { resolve, ...given });
    void attempt(change, `Conflict policy of ${database} saved`);
  };
  const remove = () =>
    attempt(
      () => client.conflicts.removePolicy(database),
      `Conflict policy of ${database} removed`,
    );
  return (
    <Dialog title="Resolve conflicts" onClose={() => onClose(false)}>
      <form onSubmit={submit}>
        <p>
          The server deletes the losing leaves in the background. Set the same policy on all servers
          with copies of this database, or on only one of them.
        </p>
        <label class="field">
          Winner
          <select
            value={resolve}
            onChange={({ currentTarget }) =>
              setResolve(currentTarget.value as ConflictPolicy["resolve"])
            }
          >
            {Object.entries(WINNERS).map(([word, text]) => (
              <option key={word} value={word}>
                {text}
              </option>
            ))}
          </select>
        </label>
        {resolve === "last_write" && (
          <label class="field">
            Member of the document that contains a number or time, such as meta.time
            <input name="field" required defaultValue={policy?.field ?? ""} autoComplete="off" />
          </label>
        )}
        {resolve === "function" && (
          <label class="field">
            JavaScript function that receives the list of leaves, CouchDB's winner first
            <textarea
              name="function"
              required
              rows={8}
              defaultValue={policy?.function ?? "function (docs) {\n  return docs[0];\n}"}
            />
          </label>
        )}
        <Problem error={error} />
        <DialogButtons leave="Keep as it is" onLeave={() => onClose(false)}>
          {policy !== undefined && (
            <button type="button" class="danger" onClick={() => void remove()}>
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

function UndoDialog({
  database,
  onClose,
}: {
  database: string;
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const [error, setError] = useState<unknown>();
  const undo = async () => {
    setError(undefined);
    try {
      const { resolutions } = await client.conflicts.undo(database);
      announce(`${formatCount(resolutions, "resolution")} undone`);
      onClose(true);
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <Dialog title="Undo all resolutions" onClose={() => onClose(false)}>
      <p>
        Restores all leaves that the logged resolutions deleted, which brings the conflicts back,
        and removes the conflict policy of <Foreign text={database} />.
      </p>
      <Problem error={error} />
      <DialogButtons leave="Keep as it is" onLeave={() => onClose(false)}>
        <button type="button" class="danger" onClick={() => void undo()}>
          Undo
        </button>
      </DialogButtons>
    </Dialog>
  );
}
