/**
 * Replaces the credentials of all jobs that log in to a server as one user (docs/api/secrets.md).
 */
import { useRef, useState } from "preact/hooks";
import { RequestError, request } from "../api/request.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount } from "../base/format.ts";
import { Dialog, DialogButtons } from "./dialog.tsx";
import { Problem } from "./text.tsx";
import { WhyField } from "./why-field.tsx";

interface Replaced {
  readonly matched: number;
  /** Number of changed jobs. Absent, like `refused`, if the jobs were only counted. */
  readonly changed?: number;
  readonly refused?: number;
  /** Jobs of other users that were skipped because they use a different credential. */
  readonly withheld?: { readonly count: number };
}

export function CredentialDialog({
  host,
  username,
  side,
  onClose,
}: {
  /** URL of the server, with scheme and port if known. */
  host: string;
  /** Current user of the jobs; empty if unknown. */
  username: string;
  side: "source" | "target" | null;
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const [matched, setMatched] = useState<number>();
  const [why, setWhy] = useState("");
  const [error, setError] = useState<unknown>();
  /** Number of edits, to ignore responses for older field values. */
  const version = useRef(0);
  const edit = () => {
    version.current++;
    setMatched(undefined);
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? "");
    const isCounting = matched === undefined;
    const asked = version.current;
    setError(undefined);
    try {
      const answer = await request<Replaced>(
        "POST",
        `_tandem/credentials/_replace${isCounting ? "?dry_run=true" : ""}`,
        {
          body: {
            host: text("host"),
            username: text("username"),
            ...(side === null ? {} : { side }),
            ...(why.trim() === "" ? {} : { why: why.trim() }),
            auth: {
              basic: {
                username: text("new-username") || text("username"),
                password: text("password"),
              },
            },
          },
        },
      );
      if (isCounting) {
        if (version.current === asked) setMatched(answer.matched);
        return;
      }
      const { changed = 0, refused = 0, withheld } = answer;
      const others =
        refused === 0 ? "" : `; ${formatCount(refused, "document")} could not be changed`;
      const kept = withheld && `; ${formatCount(withheld.count, "job")} of other users skipped`;
      announce(`New credentials for ${formatCount(changed, "job")}${others}${kept ?? ""}`);
      onClose(true);
    } catch (failure) {
      if (!(failure instanceof RequestError)) throw failure;
      setError(failure);
    }
  };
  return (
    <Dialog title="Replace a credential" onClose={() => onClose(false)}>
      <form onSubmit={(event) => void submit(event)} onInput={edit}>
        <p>
          All jobs that log in to this server {side !== null && `as their ${side} `}with a password
          of this user get the new one and run as soon as possible.
        </p>
        <label class="field">
          Server
          <input name="host" required defaultValue={host} autoComplete="off" />
        </label>
        <label class="field">
          User
          <input name="username" required defaultValue={username} autoComplete="off" />
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
        {matched !== undefined && (
          <p role="status">
            <strong>{formatCount(matched, "job")}</strong> would change.
          </p>
        )}
        <Problem error={error} />
        <DialogButtons onLeave={() => onClose(false)}>
          <button type="submit" class="primary" disabled={matched === 0}>
            {matched === undefined ? "Count jobs" : `Replace for ${formatCount(matched, "job")}`}
          </button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}
