/** Results of checking a replication, shown next to the fields to which they refer. */
import type { ComponentChildren } from "preact";
import {
  type CheckedEndpoint,
  type CheckedReplication,
  STATE_WORDS,
} from "../../contract/index.ts";
import { fieldNamed } from "../base/field-labels.ts";
import { formatCount } from "../base/format.ts";
import { linkTo } from "../base/view.ts";
import { Foreign } from "../components/text.tsx";
import type { Checked } from "./use-check.ts";

/** A finding, or an empty element: screen readers announce only changes of existing elements. */
function Finding({ tone, children }: { tone: "good" | "bad" | ""; children?: ComponentChildren }) {
  return (
    <p class={tone === "" ? "finding" : `finding finding-${tone}`} role="status">
      {children}
    </p>
  );
}

export function EndpointFinding({
  side,
  checked: { found, isChecking },
  onCreate,
}: {
  side: "source" | "target";
  checked: Checked;
  /** Called when the user asks to create the missing target. */
  onCreate?: () => void;
}) {
  if (isChecking) return <Finding tone="">Checking…</Finding>;
  const endpoint = found?.[side] ?? null;
  if (endpoint === null) return <Finding tone="" />;
  if (endpoint.state !== "failed") {
    return <Finding tone="good">{wordsOf(side, endpoint)}</Finding>;
  }
  const { class: failureClass, error, reason } = endpoint;
  return (
    <Finding tone="bad">
      {(failureClass ?? "other").replaceAll("_", " ")}:{" "}
      <Foreign text={reason ?? error ?? "unknown reason"} />{" "}
      {failureClass === "not_found" && onCreate !== undefined && (
        <button type="button" onClick={onCreate}>
          Create target
        </button>
      )}
    </Finding>
  );
}

function wordsOf(side: "source" | "target", { state, changes }: CheckedEndpoint): string {
  if (state === "new") return "The database does not exist yet and will be created.";
  if (side === "target") return "The database exists and is reachable.";
  if (changes === null) return "The database is readable.";
  return `The database is readable, with ${formatCount(changes, "change")}.`;
}

/** Shows whether the id of the document is already in use, and whether the document is valid. */
export function DocumentFinding({ checked: { found, error } }: { checked: Checked }) {
  if (error !== undefined) {
    const reason = error instanceof Error ? error.message : String(error);
    return (
      <Finding tone="bad">
        Not checked: <Foreign text={reason} />
      </Finding>
    );
  }
  if (found?.name_taken === true) {
    return <Finding tone="bad">A document with this id already exists.</Finding>;
  }
  if (found === undefined || found.reason === null || faultsOf(found).length > 0) {
    return <Finding tone="" />;
  }
  return (
    <Finding tone="bad">
      <Foreign text={found.reason} />
    </Finding>
  );
}

/** Returns the errors of individual members, which are shown next to their fields. */
export function faultsOf({ faults, reason }: CheckedReplication): readonly string[] {
  if (faults.length > 0 || reason === null || fieldNamed(reason) === undefined) return faults;
  return [reason];
}

/** Shows errors that belong to no field, and an existing job for the same replication. */
export function OtherFindings({ checked: { found } }: { checked: Checked }) {
  // All other errors are shown next to their fields.
  const faults = found?.faults.filter((fault) => fieldNamed(fault) === undefined) ?? [];
  const job = found?.job ?? null;
  return (
    <div role="status">
      {faults.map((fault) => (
        <p key={fault} class="finding finding-bad">
          <Foreign text={fault} />
        </p>
      ))}
      {job !== null && <Twin job={job} />}
    </div>
  );
}

function Twin({ job }: { job: NonNullable<CheckedReplication["job"]> }) {
  const { name } = job;
  return (
    <p class="finding finding-bad">
      Another job runs the same replication, and only one of the two jobs can run:{" "}
      <a href={linkTo(["jobs", name])}>
        <Foreign text={name} />
      </a>{" "}
      is {STATE_WORDS[job.state]}.
    </p>
  );
}
