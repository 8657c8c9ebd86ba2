/** Checks the replication in a form after a short pause in typing. */
import { useEffect } from "preact/hooks";
import { parseJson, printJson } from "../../base/index.ts";
import type { CheckedReplication } from "../../contract/index.ts";
import type { ReplicationDocument } from "../api/one-job.ts";
import { RequestError, request } from "../api/request.ts";

/** Pause in typing after which the document is checked. */
const QUIET_MS = 700;
/** Pause before a request to an overloaded server is repeated. */
const BUSY_MS = 2_000;
const BUSY = 503;

export interface Checked {
  /** Result for the document at the time of the last check. */
  readonly found: CheckedReplication | undefined;
  /** Id of the document that was checked last. */
  readonly id: string;
  readonly isChecking: boolean;
  readonly error: unknown;
}

export const UNCHECKED: Checked = { found: undefined, id: "", isChecking: false, error: undefined };

/**
 * Checks `document` unless it is undefined, and reports results to `onChange`. `isHeld` suspends
 * checks. They are suspended while a password is being typed, because logins with an incomplete
 * password might lock the account, and while the user is logged out.
 */
export function useCheck(
  database: string,
  document: ReplicationDocument | undefined,
  isHeld: boolean,
  onChange: (change: (before: Checked) => Checked) => void,
): void {
  const text = document === undefined ? undefined : printJson(document);
  useEffect(() => {
    if (text === undefined || isHeld) return;
    const leaving = new AbortController();
    const { signal } = leaving;
    let timer: ReturnType<typeof setTimeout>;
    const check = async () => {
      onChange((before) => ({ ...before, isChecking: true, error: undefined }));
      try {
        const asked = parseJson(text) as ReplicationDocument;
        const parts = { query: { database }, body: asked, signal };
        const path = "_tandem/replications/_check";
        const found = await request<CheckedReplication>("POST", path, parts);
        const id = String(asked._id ?? "");
        if (!signal.aborted) onChange(() => ({ ...UNCHECKED, found, id }));
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RequestError && error.status === BUSY) {
          timer = setTimeout(() => void check(), BUSY_MS);
        } else onChange(() => ({ ...UNCHECKED, error }));
      }
    };
    timer = setTimeout(() => void check(), QUIET_MS);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [database, text, isHeld, onChange]);
}
