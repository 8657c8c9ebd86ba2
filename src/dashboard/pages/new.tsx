/**
 * Page for creating or changing a replication: a form for its document, and a preview of the
 * document that will be sent.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import {
  pathOfDocument,
  type ReplicationDocument,
  readDocument,
  writeDocument,
} from "../api/one-job.ts";
import { addressOf, client, RequestError } from "../api/request.ts";
import type { Session } from "../api/session.ts";
import type { Query } from "../api/types.ts";
import { useIdleFeed, useSurroundings } from "../base/context.ts";
import { fieldNamed, labelOf } from "../base/field-labels.ts";
import { visibleJson } from "../base/json.ts";
import { goTo } from "../base/location.ts";
import { masked } from "../base/masked.ts";
import {
  cloneOf,
  curlCommand,
  draftOf,
  EMPTY_FORM,
  FieldError,
  type FormFields,
  fieldsOf,
  idFor,
  type Made,
  replicationOf,
  withTrimmedName,
} from "../base/replication-form.ts";
import { useTitle } from "../base/title.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import {
  CheckField,
  FieldErrors,
  FoldedPart,
  OptionFields,
  Part,
  TextField,
  useFirstError,
} from "../components/fields.tsx";
import { Problem } from "../components/text.tsx";
import {
  AfterField,
  ScheduleFields,
  SelectedFields,
  SkippedFields,
  TagFields,
} from "./copied-fields.tsx";
import { Endpoint, isOfLogin } from "./endpoint-fields.tsx";
import { DocumentFinding, EndpointFinding, faultsOf, OtherFindings } from "./findings.tsx";
import { type Checked, UNCHECKED, useCheck } from "./use-check.ts";

interface Start {
  readonly fields: FormFields;
  /** The document that is edited or cloned. */
  readonly original: ReplicationDocument | undefined;
}

export function NewPage({ query }: { query: Query }) {
  const { session } = useSurroundings();
  const { edit, clone } = query;
  const start = useLoaded((signal) => readStart(session, query, signal), JSON.stringify(query));
  // This page shows no events; the feed only indicates whether the connection is live.
  const reload = () => {
    if (start.value === undefined) start.reload();
  };
  useIdleFeed(reload, { state: "failed" });
  const title =
    edit !== undefined
      ? "Edit a replication"
      : clone !== undefined
        ? "Clone a replication"
        : "New replication";
  useTitle(edit ?? clone, title);
  return (
    <>
      <h1>{title}</h1>
      <Problem error={start.error} />
      {!session.changes && <p class="problem">Read-only user.</p>}
      {session.changes && start.value !== undefined && (
        <ReplicationForm
          key={JSON.stringify(query)}
          start={start.value}
          isEdit={edit !== undefined}
        />
      )}
    </>
  );
}

async function readStart(
  session: Session,
  { edit, clone }: Query,
  signal: AbortSignal,
): Promise<Start> {
  const name = edit ?? clone;
  if (name === undefined) return { fields: EMPTY_FORM, original: undefined };
  const job = await client.jobs.get(name, { signal });
  const document = await readDocument(session, job, signal);
  if (document === undefined)
    throw new Error("The job has no document that you are allowed to read.");
  const { database, doc_id: id } = job as { database: string; doc_id: string };
  if (edit !== undefined) return { fields: fieldsOf(document, database, id), original: document };
  const copied = cloneOf(document);
  return { fields: fieldsOf(copied, database, `${id}-copy`), original: copied };
}

/** Maximum number of ids tried for a form. If all are in use, the user has to enter one. */
const ID_ATTEMPTS_MAX = 100;

/**
 * Returns the id made from the addresses, with a number if documents with that id exist. `found` is
 * the result of the last check, for the document with the id `id`.
 */
function useGeneratedId({ source, target }: FormFields, { found, id }: Checked): string {
  const base = idFor(source.address, target.address);
  const [tried, setTried] = useState({ base, number: 1 });
  const number = tried.base === base ? tried.number : 1;
  const generated = number === 1 ? base : `${base}-${number}`;
  const isTaken = found?.name_taken === true && id === generated && number < ID_ATTEMPTS_MAX;
  useEffect(() => {
    if (isTaken) setTried({ base, number: number + 1 });
  }, [isTaken, base, number]);
  return generated;
}

function ReplicationForm({ start, isEdit }: { start: Start; isEdit: boolean }) {
  const { announce, isLoggedOut } = useSurroundings();
  const { original } = start;
  const [typed, setTyped] = useState(start.fields);
  const [checked, setChecked] = useState(UNCHECKED);
  const generatedId = useGeneratedId(typed, checked);
  const isGenerated = typed.id === "";
  const fields = useMemo(() => {
    const named = isGenerated ? { ...typed, id: generatedId } : typed;
    return isEdit ? named : withTrimmedName(named);
  }, [isEdit, isGenerated, generatedId, typed]);
  const made = useMemo(() => madeFor(fields, original), [fields, original]);
  const [error, setError] = useState<unknown>();
  /** Whether the user has tried to send the form. From then on, missing values are errors. */
  const [isTried, setIsTried] = useState(false);
  const [isSending, setIsSending] = useState(false);
  const [isLoggingIn, setIsLoggingIn] = useState(false);
  useCheck(fields.database, draftOf(made, fields.id), isLoggingIn || isLoggedOut, setChecked);
  const { form, focusFirstError } = useFirstError();
  const errors = useMemo(
    () => errorsOf(made, isTried, error, checked),
    [made, isTried, error, checked],
  );
  const change = (changed: Partial<FormFields>) => {
    setError(undefined);
    setTyped((before) => ({ ...before, ...changed }));
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setIsTried(true);
    focusFirstError();
    if (made.errors.size > 0) return;
    setIsSending(true);
    setError(undefined);
    try {
      await writeDocument(fields.database, fields.id, made.document);
      announce(isEdit ? "Changed" : "Created");
      goTo(linkTo(["jobs", `${fields.database}/${fields.id}`]));
    } catch (failure) {
      setError(failure);
      focusFirstError();
    } finally {
      setIsSending(false);
    }
  };
  const has = (...names: readonly string[]) => names.some((name) => original?.[name] !== undefined);
  return (
    <form
      ref={form}
      noValidate
      class="columns replication"
      onSubmit={(event) => void submit(event)}
      onFocusIn={({ target }) => setIsLoggingIn(isOfLogin(target))}
      onFocusOut={() => setIsLoggingIn(false)}
    >
      <FieldErrors value={errors}>
        <div class="form-parts">
          <Endpoint
            side="source"
            {...ENDPOINT}
            fields={fields.source}
            canKeep={start.fields.source.login === "kept"}
            onChange={(source) => change({ source })}
          >
            <EndpointFinding side="source" checked={checked} />
          </Endpoint>
          <Endpoint
            side="target"
            {...ENDPOINT}
            placeholder="https://b.example/films"
            fields={fields.target}
            canKeep={start.fields.target.login === "kept"}
            onChange={(target) => change({ target })}
          >
            <CheckField
              field="create_target"
              value={fields.createTarget}
              onChange={(createTarget) => change({ createTarget })}
            />
            <EndpointFinding
              side="target"
              checked={checked}
              onCreate={() => change({ createTarget: true })}
            />
          </Endpoint>
          <Part title="Replication">
            <CheckField
              field="continuous"
              note="Keeps running after it has caught up."
              value={fields.continuous}
              onChange={(continuous) => change({ continuous })}
            />
            <TextField
              field="id"
              value={isGenerated ? generatedId : typed.id}
              isFixed={isEdit}
              onChange={(id) => change({ id })}
              note={
                isEdit
                  ? ""
                  : "Id of the document. Leave empty to derive it from the source and target."
              }
            />
            <DocumentFinding checked={checked} />
          </Part>
          <FoldedPart
            title="Documents to copy"
            isOpen={
              fields.selection !== "all" ||
              has("pair", "winning_revs_only", "deleted", "documents", "attachments", "since_seq")
            }
          >
            <CheckField
              field="pair"
              note="Also copies from the target to the source, in the same job."
              value={fields.pair}
              onChange={(pair) => change({ pair })}
            />
            <SelectedFields fields={fields} onChange={change} />
            <CheckField
              field="winning_revs_only"
              note="Conflicting revisions are not copied."
              value={fields.winningRevisionsOnly}
              onChange={(winningRevisionsOnly) => change({ winningRevisionsOnly })}
            />
            <SkippedFields fields={fields} onChange={change} />
            <TextField
              field="since_seq"
              value={fields.sinceSequence}
              onChange={(sinceSequence) => change({ sinceSequence })}
              note="Update sequence of the source, or a time, after which the job starts. Earlier changes are not copied."
            />
          </FoldedPart>
          <FoldedPart title="Schedule" isOpen={has("schedule", "after")}>
            <ScheduleFields
              fields={fields}
              onChange={(changed) => {
                const { scheduleKind: kind = "none" } = changed;
                // A time window makes the replication continuous; any other schedule makes it
                // one-shot.
                const continuous = kind === "none" ? fields.continuous : kind === "window";
                change({ ...changed, continuous });
              }}
            />
            <AfterField
              fields={fields}
              placeholder="other-job"
              note="Jobs that must complete or catch up before this job starts, one per line."
              onChange={change}
            />
          </FoldedPart>
          <FoldedPart title="Tags and nodes" isOpen={has("tags", "run_on")}>
            <TagFields fields={fields} onChange={change} />
          </FoldedPart>
          <FoldedPart title="Options" isOpen={Object.keys(start.fields.options).length > 0}>
            <OptionFields values={fields.options} onChange={(options) => change({ options })} />
          </FoldedPart>
          <FoldedPart title="Replicator database" isOpen={fields.database !== "_replicator"}>
            <TextField
              field="database"
              value={typed.database}
              isFixed={isEdit}
              onChange={(database) => change({ database })}
              note="_replicator, or a database whose name ends in /_replicator."
            />
          </FoldedPart>
        </div>
      </FieldErrors>
      <Outcome fields={fields} made={made} error={error} checked={checked}>
        <button type="submit" class="primary" disabled={isSending}>
          {isEdit ? "Save" : "Create"}
        </button>
      </Outcome>
    </form>
  );
}

const ENDPOINT = {
  note: "URL, or name of a database on this server.",
  placeholder: "https://a.example/films",
};
const CONFLICT = 409;

/** Makes the document. An id that browsers cannot request is an error. */
function madeFor(fields: FormFields, original: ReplicationDocument | undefined): Made {
  const made = replicationOf(fields, original);
  // A missing id is not reported if an address is missing or invalid, because the id is made from
  // the addresses.
  if (fields.id === "" && (made.errors.has("source") || made.errors.has("target"))) {
    return { ...made, errors: new Map([...made.errors].filter(([field]) => field !== "id")) };
  }
  if (made.errors.has("id") || made.errors.has("database")) return made;
  try {
    pathOfDocument(fields.database, fields.id);
    return made;
  } catch (fault) {
    if (!(fault instanceof RequestError)) throw fault;
    return {
      ...made,
      errors: new Map([...made.errors, ["id", new FieldError("id", fault.message)]]),
    };
  }
}

/** Errors by field: from the input, from the response to the form, and from the last check. */
function errorsOf(
  made: Made,
  isTried: boolean,
  error: unknown,
  { found }: Checked,
): ReadonlyMap<string, string> {
  const errors = new Map<string, string>();
  for (const fault of found === undefined ? [] : faultsOf(found)) {
    const field = fieldNamed(fault);
    if (field !== undefined) errors.set(field, fault);
  }
  const refused = fieldOfError(error);
  if (refused !== undefined && error instanceof Error) errors.set(refused, error.message);
  for (const [field, { message, isMissing }] of made.errors) {
    if (isTried || !isMissing) errors.set(field, message);
  }
  return errors;
}

/** Returns the field to which an error of the node refers, if any. */
function fieldOfError(error: unknown): string | undefined {
  if (!(error instanceof RequestError)) return undefined;
  return error.status === CONFLICT ? "id" : fieldNamed(error.message);
}

/** Preview of the request, with the button that sends it. */
function Outcome({
  fields,
  made: { document, errors },
  error,
  checked,
  children,
}: {
  fields: FormFields;
  made: Made;
  error: unknown;
  checked: Checked;
  children: ComponentChildren;
}) {
  const faults = [...errors.values()];
  return (
    <section class="panel outcome" aria-labelledby="outcome-title">
      <div class="page-head spread">
        <h2 id="outcome-title">Request preview</h2>
        {children}
      </div>
      <Problem error={error} />
      {errors.size === 0 && <OtherFindings checked={checked} />}
      {errors.size > 0 ? (
        <div class="section-note" role="status">
          {faults.map(({ field, message }) => (
            <p key={field}>
              {labelOf(field)}: {message}
            </p>
          ))}
        </div>
      ) : (
        <>
          <h3>Document</h3>
          <pre>{visibleJson(masked(document))}</pre>
          <h3>Shell command</h3>
          <pre>{curlCommand(addressOf(pathOfDocument(fields.database, fields.id)), document)}</pre>
          <p class="section-note">
            curl reads your login from ~/.netrc. Replace each ***** with the secret.
          </p>
        </>
      )}
    </section>
  );
}
