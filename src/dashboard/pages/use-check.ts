/** Checks a replication while it is being typed, after a short pause. */
import { useEffect, useState } from "preact/hooks";
import { parseJson, printJson } from "../../base/index.ts";
import type { CheckedReplication } from "../../contract/index.ts";
import { checkReplication } from "../api/check.ts";
import type { ReplicationDocument } from "../api/one-job.ts";
import { RequestError } from "../api/request.ts";

/** Pause in typing after which the document is checked. */
const QUIET_MS = 700;
/** Pause before a request to an overloaded server is repeated. */
const BUSY_MS = 2_000;
const BUSY = 503;

export interface Checked {
  /** Result for the document at the time of the last check. */
  readonly found: CheckedReplication | undefined;
  readonly isChecking: boolean;
  readonly error: unknown;
}

/**
 * Checks `document`, unless it is undefined. `isHeld` suspends checks while a
 * password is being typed, since servers may lock out half-typed ones, or while the user is not
 * logged in.
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
  const text = document === undefined ? undefined : printJson(document);
  useEffect(() => {
    if (text === undefined || isHeld) return;
    const leaving = new AbortController();
    const { signal } = leaving;
    let timer: ReturnType<typeof setTimeout>;
    const check = async () => {
      setChecked(({ found }) => ({ found, isChecking: true, error: undefined }));
      try {
        const found = await checkReplication(
          database,
          parseJson(text) as ReplicationDocument,
          signal,
        );
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
