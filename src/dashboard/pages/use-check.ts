/** Checks a replication while it is typed: once it has been left alone for a moment. */
import { useEffect, useState } from "preact/hooks";
import type { CheckedReplication } from "../../contract/index.ts";
import { checkReplication } from "../api/check.ts";
import type { ReplicationDocument } from "../api/one-job.ts";
import { RequestError } from "../api/request.ts";

/** After the last change. */
const QUIET_MS = 700;
/** Before a server is asked again that had too much to do. */
const BUSY_MS = 2_000;
const BUSY = 503;

export interface Checked {
  /** Of the document as it was when it was checked last. */
  readonly found: CheckedReplication | undefined;
  readonly isChecking: boolean;
  readonly error: unknown;
}

/**
 * `document` undefined: there is nothing to check yet. `isHeld`: not now, because somebody types a password, and servers may lock out
 * who tries half of one, or because nobody is logged in.
 */
export function useCheck(
  database: string,
  document: ReplicationDocument | undefined,
  isHeld: boolean,
): Checked {
  const [checked, setChecked] = useState<Checked>({
    found: undefined,
    isChecking: false,
    error: undefined,
  });
  const text = document === undefined ? undefined : JSON.stringify(document);
  useEffect(() => {
    if (text === undefined || isHeld) return;
    const leaving = new AbortController();
    const { signal } = leaving;
    let timer: ReturnType<typeof setTimeout>;
    const check = async () => {
      setChecked(({ found }) => ({ found, isChecking: true, error: undefined }));
      try {
        const found = await checkReplication(database, JSON.parse(text), signal);
        if (!signal.aborted) setChecked({ found, isChecking: false, error: undefined });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RequestError && error.status === BUSY) {
          timer = setTimeout(() => void check(), BUSY_MS);
        } else setChecked({ found: undefined, isChecking: false, error });
      }
    };
    timer = setTimeout(() => void check(), QUIET_MS);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [database, text, isHeld]);
  return checked;
}
