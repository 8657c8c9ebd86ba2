/** Reports revisions that were not copied. */
import type { DocumentFailure } from "../../replicator/index.ts";
import { counted } from "../terminal/counted.ts";
import { printable } from "../terminal/table.ts";

const FAILURES_SHOWN_MAX = 20;

/**
 * Returns a text with the number of failed revisions, and some of the revisions with reasons. Empty
 * if there are no failures.
 */
export function leftBehind(failures: readonly DocumentFailure[]): string {
  if (failures.length === 0) return "";
  const lines = failures
    .slice(0, FAILURES_SHOWN_MAX)
    .map(({ id, revision, error, reason }) =>
      printable(`  ${id} ${revision}: ${error}: ${reason}`),
    );
  const head = `${counted(failures.length, "revision")} failed:`;
  return [head, ...lines].map((line) => `${line}\n`).join("");
}
