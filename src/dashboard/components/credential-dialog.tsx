/**
 * Replaces the credentials of all jobs that log in to a server as one user (docs/api/secrets.md).
 */
import { useRef, useState } from "preact/hooks";
import type { BulkCommand, ReplacedCredentials } from "../../contract/index.ts";
import { filterPart } from "../api/jobs.ts";
import { client, RequestError, request, withQuery } from "../api/request.ts";
import type { Query } from "../api/types.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount } from "../base/format.ts";
import { CommandProgress } from "./command-dialog.tsx";
import { Dialog, DialogButtons } from "./dialog.tsx";
import { Foreign, Problem } from "./text.tsx";
import { WhyField } from "./why-field.tsx";

export function CredentialDialog({
  login: { host, username },
  side,
  query,
  onClose,
}: {
  /** The account whose password was rejected. */
  login: { readonly host: string; readonly username: string };
  side: "source" | "target" | null;
  /** Selects the jobs of the failing group. */
  query: Query;
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const [found, setFound] = useState<ReplacedCredentials>();
  const [progress, setProgress] = useState<BulkCommand>();
  const [isRunning, setIsRunning] = useState(false);
  const [why, setWhy] = useState("");
  const [error, setError] = useState<unknown>();
  /** Number of edits. A response is ignored if it was requested before the last edit. */
  const version = useRef(0);
  const edit = () => {
    version.current++;
    setFound(undefined);
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? "");
    const isCounting = found === undefined;
    const asked = version.current;
    setError(undefined);
    setIsRunning(true);
    try {
      const path = withQuery("_tandem/credentials/_replace", {
        ...filterPart(query),
        ...(isCounting ? { dry_run: "true" } : {}),
      });
      const answer = await request<ReplacedCredentials>("POST", path, {
        body: {
          host,
          username,
          ...(side === null ? {} : { side }),
          ...(why.trim() === "" ? {} : { why: why.trim() }),
          auth: {
            basic: { username: text("new-username") || username, password: text("password") },
          },
        },
      });
      if (isCounting) {
        if (version.current === asked) setFound(answer);
        return;
      }
      let ended: BulkCommand | undefined;
      if (answer.id !== undefined) {
        for await (ended of client.commands.follow(answer.id)) setProgress(ended);
      }
      const { changed = 0, refused = 0 } =
        ended === undefined ? answer : { changed: ended.changed, refused: ended.failed };
      const others = refused === 0 ? "" : `; ${formatCount(refused, "document")} were not changed`;
      const stopped = ended?.state === "cancelled" ? "; cancelled" : "";
      announce(`Credentials of ${formatCount(changed, "job")} replaced${others}${stopped}`);
      onClose(true);
    } catch (failure) {
      if (!(failure instanceof RequestError)) throw failure;
      setError(failure);
    } finally {
      setIsRunning(false);
    }
  };
  const isNothing = found?.matched === 0 && found.rules.length === 0;
  return (
    <Dialog title="Replace a credential" onClose={() => onClose(false)}>
      <form onSubmit={(event) => void submit(event)} onInput={edit}>
        <p>
          {`Sets the new password in all failing jobs and rules that log in ${side === null ? "" : `to their ${side} `}with this account, and retries them as soon as possible. The old password is not kept.`}
        </p>
        <label class="field">
          Server
          <input readOnly value={host} />
        </label>
        <label class="field">
          User
          <input readOnly value={username} />
        </label>
        <label class="field">
          New user (optional)
          <input name="new-username" autoComplete="off" />
        </label>
        <label class="field">
          New password
          <input name="password" type="password" required autoComplete="new-password" />
        </label>
        <WhyField value={why} onChange={setWhy} />
        {found !== undefined && !isRunning && (
          <p role="status">
            <strong>{formatCount(found.matched, "job")}</strong> would change.
            {found.withheld !== undefined &&
              ` ${formatCount(found.withheld.count, "job")} of other users would keep their credentials.`}
            {found.rules.length > 0 && (
              <>
                {" "}
                The change would also affect all jobs of these rules:{" "}
                <Foreign text={found.rules.join(", ")} />
              </>
            )}
          </p>
        )}
        {progress !== undefined && <CommandProgress command={progress} />}
        <Problem error={error} />
        <DialogButtons leave="Keep the old password" onLeave={() => onClose(false)}>
          <button type="submit" class="primary" disabled={isRunning || isNothing}>
            {submitWords(found?.matched, isRunning)}
          </button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}

function submitWords(matched: number | undefined, isRunning: boolean): string {
  if (isRunning) return "Working…";
  return matched === undefined
    ? "Count jobs"
    : `Replace credential of ${formatCount(matched, "job")}`;
}
