/** CouchDB's error for an edit that was not written. */
import type { Refusal, WriteOutcome } from "../databases/index.ts";

/** Outcome of an edit whose revision is now in the database. */
type Written = WriteOutcome & { readonly kind: "written" | "known" };

export type RefusedOutcome = Exclude<WriteOutcome, Written>;

export function isWritten(outcome: WriteOutcome): outcome is Written {
  return outcome.kind === "written" || outcome.kind === "known";
}

export function writeRefusal(outcome: RefusedOutcome): Refusal {
  switch (outcome.kind) {
    case "conflict":
      return { error: "conflict", reason: "Document update conflict." };
    case "missing-stub": {
      const reason = `Invalid attachment stub in ${outcome.id} for ${outcome.name}`;
      return { error: "missing_stub", reason };
    }
    case "rejected":
      return { error: outcome.error, reason: outcome.reason };
  }
}
