/**
 * Page for creating or changing a replication: a form for its document, which is shown as it will
 * be sent.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import type { Job } from "../../contract/index.ts";
import { DOCUMENT_OPTIONS, type Option } from "../../contract/index.ts";
import { pathOfJob } from "../api/jobs.ts";
import {
  pathOfDocument,
  type ReplicationDocument,
  readDocument,
  writeDocument,
} from "../api/one-job.ts";
import { addressOf, get, RequestError } from "../api/request.ts";
import type { Session } from "../api/session.ts";
import type { Query } from "../api/types.ts";
import { useFeed, useSurroundings } from "../base/context.ts";
import { visibleJson } from "../base/json.ts";
import { goTo } from "../base/location.ts";
import { masked } from "../base/masked.ts";
import {
  cloneOf,
  curlCommand,
  documentOf,
  draftOf,
  EMPTY_FORM,
  type EndpointFields,
  FieldError,
  type FormFields,
  fieldsOf,
  type Login,
  withTrimmedName,
} from "../base/replication-form.ts";
import { useTitle } from "../base/title.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { Part, TextField } from "../components/fields.tsx";
import { Problem } from "../components/text.tsx";
import { CopiedFields, TimeFields } from "./copied-fields.tsx";
import { DocumentFinding, EndpointFinding, OtherFindings } from "./findings.tsx";
import { type Checked, useCheck } from "./use-check.ts";

interface Start {
  readonly fields: FormFields;
  /** The document that is edited or cloned. */
  readonly original: ReplicationDocument | undefined;
}

export function NewPage({ query }: { query: Query }) {
  const { session } = useSurroundings();
  const { edit, clone } = query;
  const start = useLoaded((signal) => readStart(session, query, signal), JSON.stringify(query));
  // This page uses no events; the feed only shows whether the connection is live.
  const reload = () => {
    if (start.value === undefined) start.reload();
  };
  useFeed({ state: "failed" }, { event: () => {}, gap: reload });
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
  if (name === undefined) {
    const { uuids } = await get<{ uuids: string[] }>("_uuids", signal);
    return { fields: { ...EMPTY_FORM, id: uuids[0] ?? "" }, original: undefined };
  }
  const job = await get<Job>(pathOfJob(name), signal);
  const document = await readDocument(session, job, signal);
  if (document === undefined) throw new Error("The job has no document that this user may read.");
  const { database, doc_id: id } = job as { database: string; doc_id: string };
  if (edit !== undefined) return { fields: fieldsOf(document, database, id), original: document };
  const copied = cloneOf(document);
  return { fields: fieldsOf(copied, database, `${id}-copy`), original: copied };
}

function ReplicationForm({ start, isEdit }: { start: Start; isEdit: boolean }) {
  const { announce, isLoggedOut } = useSurroundings();
  const [typed, setFields] = useState(start.fields);
  const fields = useMemo(() => (isEdit ? typed : withTrimmedName(typed)), [isEdit, typed]);
  const [error, setError] = useState<unknown>();
  const [isSending, setIsSending] = useState(false);
  const [isLoggingIn, setIsLoggingIn] = useState(false);
  const draft = useMemo(() => draftOf(fields, start.original), [fields, start.original]);
  const checked = useCheck(fields.database, draft, isLoggingIn || isLoggedOut);
  const change = (changed: Partial<FormFields>) =>
    setFields((before) => ({ ...before, ...changed }));
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setIsSending(true);
    setError(undefined);
    try {
      await writeDocument(fields.database, fields.id, documentOf(fields, start.original));
      announce(isEdit ? "Changed" : "Created");
      goTo(linkTo(["jobs", `${fields.database}/${fields.id}`]));
    } catch (failure) {
      setError(failure);
    } finally {
      setIsSending(false);
    }
  };
  return (
    <form
      class="columns replication"
      onSubmit={(event) => void submit(event)}
      onFocusIn={({ target }) => setIsLoggingIn(isOfLogin(target))}
      onFocusOut={() => setIsLoggingIn(false)}
    >
      <div class="form-parts">
        <Part title="Document">
          <TextField
            label="Database"
            value={typed.database}
            isFixed={isEdit}
            onChange={(database) => change({ database })}
            note="_replicator, or a database whose name ends in /_replicator"
          />
          <TextField
            label="Id"
            value={typed.id}
            isFixed={isEdit}
            onChange={(id) => change({ id })}
          />
          <DocumentFinding checked={checked} />
        </Part>
        <Endpoint
          title="Source"
          fields={fields.source}
          canKeep={start.fields.source.login === "kept"}
          onChange={(source) => change({ source })}
        >
          <EndpointFinding side="source" checked={checked} />
        </Endpoint>
        <Endpoint
          title="Target"
          fields={fields.target}
          canKeep={start.fields.target.login === "kept"}
          onChange={(target) => change({ target })}
        >
          <EndpointFinding side="target" checked={checked} />
        </Endpoint>
        <CopiedFields fields={fields} onChange={change} />
        <TimeFields fields={fields} onChange={change} />
        <Part title="Options">
          {DOCUMENT_OPTIONS.map((option) => (
            <OptionField
              key={option.name}
              option={option}
              value={fields.options[option.name] ?? ""}
              onChange={(value) => change({ options: { ...fields.options, [option.name]: value } })}
            />
          ))}
        </Part>
      </div>
      <Outcome fields={fields} original={start.original} error={error} checked={checked}>
        <button type="submit" class="primary" disabled={isSending}>
          {isEdit ? "Save" : "Create"}
        </button>
      </Outcome>
    </form>
  );
}

/** Whether the element is a user or secret field, which takes effect only when typing has ended. */
function isOfLogin(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.dataset.login !== undefined;
}

type Sent =
  | { readonly kind: "whole"; readonly document: ReplicationDocument; readonly address: string }
  | { readonly kind: "refused"; readonly fault: string };

function sentOf(fields: FormFields, original: ReplicationDocument | undefined): Sent {
  try {
    const document = documentOf(fields, original);
    return {
      kind: "whole",
      document,
      address: addressOf(pathOfDocument(fields.database, fields.id)),
    };
  } catch (fault) {
    if (fault instanceof FieldError || fault instanceof RequestError) {
      return { kind: "refused", fault: fault.message };
    }
    throw fault;
  }
}

/** Preview of the request, with the button that sends it. */
function Outcome({
  fields,
  original,
  error,
  checked,
  children,
}: {
  fields: FormFields;
  original: ReplicationDocument | undefined;
  error: unknown;
  checked: Checked;
  children: ComponentChildren;
}) {
  const [sent, setSent] = useState<Sent>({ kind: "refused", fault: "" });
  useEffect(() => setSent(sentOf(fields, original)), [fields, original]);
  return (
    <section class="panel outcome" aria-labelledby="outcome-title">
      <div class="page-head spread">
        <h2 id="outcome-title">Request preview</h2>
        {children}
      </div>
      <Problem error={error} />
      {sent.kind === "whole" && <OtherFindings checked={checked} />}
      {sent.kind === "refused" ? (
        <p class="section-note" role="status">
          {sent.fault}
        </p>
      ) : (
        <>
          <h3>Document</h3>
          <pre>{visibleJson(masked(sent.document))}</pre>
          <h3>Shell command</h3>
          <pre>{curlCommand(sent.address, sent.document)}</pre>
        </>
      )}
    </section>
  );
}

const LOGIN_WORDS: Readonly<Record<Login, string>> = {
  none: "none",
  kept: "unchanged",
  basic: "user and password",
  bearer: "bearer token",
  iam: "IAM key",
};
const SECRET_WORDS: Readonly<Partial<Record<Login, string>>> = {
  basic: "Password",
  bearer: "Token",
  iam: "Key",
};

function Endpoint({
  title,
  fields,
  canKeep,
  onChange,
  children,
}: {
  title: string;
  fields: EndpointFields;
  /** Whether there are credentials to keep. */
  canKeep: boolean;
  onChange: (fields: EndpointFields) => void;
  children: ComponentChildren;
}) {
  const { address, login, username, secret } = fields;
  const secretWord = SECRET_WORDS[login];
  const logins = (Object.keys(LOGIN_WORDS) as Login[]).filter((kind) => canKeep || kind !== "kept");
  return (
    <Part title={title}>
      <TextField
        label={`${title} address`}
        value={address}
        onChange={(changed) => onChange({ ...fields, address: changed })}
        note="a URL, or the name of a database of this server"
      />
      <label class="field">
        {title} login
        <select
          value={login}
          onChange={({ currentTarget }) =>
            onChange({ ...fields, login: currentTarget.value as Login })
          }
        >
          {logins.map((kind) => (
            <option key={kind} value={kind}>
              {LOGIN_WORDS[kind]}
            </option>
          ))}
        </select>
      </label>
      {login === "basic" && (
        <TextField
          label={`${title} user`}
          isOfLogin
          value={username}
          onChange={(changed) => onChange({ ...fields, username: changed })}
        />
      )}
      {secretWord !== undefined && (
        <label class="field">
          {`${title} ${secretWord.toLowerCase()}`}
          <input
            type="password"
            data-login
            required
            autoComplete="new-password"
            value={secret}
            onInput={({ currentTarget }) => onChange({ ...fields, secret: currentTarget.value })}
          />
          <span class="section-note">or a reference, env:NAME or file:/path</span>
        </label>
      )}
      {children}
    </Part>
  );
}

function OptionField({
  option,
  value,
  onChange,
}: {
  option: Option;
  value: string;
  onChange: (value: string) => void;
}) {
  const id = useId();
  const noteId = `${id}-note`;
  const choices =
    option.kind === "boolean"
      ? ["true", "false"]
      : option.kind === "choice"
        ? option.choices
        : undefined;
  const unit = option.kind === "integer" && option.unit !== undefined ? `, ${option.unit}` : "";
  return (
    <div class="field">
      <label for={id}>
        {option.name}
        <span class="section-note">{unit}</span>
      </label>
      {choices === undefined ? (
        <input
          id={id}
          aria-describedby={noteId}
          inputMode="numeric"
          placeholder={String(option.default)}
          value={value}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
      ) : (
        <select
          id={id}
          aria-describedby={noteId}
          value={value}
          onChange={({ currentTarget }) => onChange(currentTarget.value)}
        >
          <option value="">{`default (${option.default})`}</option>
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      )}
      <span id={noteId} class="section-note">
        {option.meaning.replaceAll("`", "")}
      </span>
    </div>
  );
}
