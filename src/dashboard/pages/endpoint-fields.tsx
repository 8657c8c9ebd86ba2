/** Fields of an endpoint: its address, and how jobs log in there. */
import type { ComponentChildren } from "preact";
import { type EndpointFields, LOGINS, type Login } from "../base/replication-form.ts";
import { Part, SelectField, TextField } from "../components/fields.tsx";

const LOGIN_WORDS: Readonly<Record<Login, string>> = {
  none: "none",
  kept: "unchanged",
  basic: "user and password",
  bearer: "bearer token",
  iam: "IAM key",
  oauth2: "OAuth client",
};
const SECRET_WORDS: Readonly<Partial<Record<Login, string>>> = {
  basic: "password",
  bearer: "token",
  iam: "key",
  oauth2: "client secret",
};

export function Endpoint({
  side,
  note,
  placeholder,
  fields,
  canKeep,
  onChange,
  children,
}: {
  side: "source" | "target";
  note: string;
  placeholder: string;
  fields: EndpointFields;
  /** Whether the replication has stored credentials, so that `kept` is offered. */
  canKeep: boolean;
  onChange: (fields: EndpointFields) => void;
  children?: ComponentChildren;
}) {
  const { address, login, username, secret } = fields;
  const title = side === "source" ? "Source" : "Target";
  const secretWord = SECRET_WORDS[login];
  const logins = LOGINS.filter((kind) => canKeep || kind !== "kept");
  return (
    <Part title={title}>
      <TextField
        field={side}
        also={secretWord === undefined ? `${side}.auth` : undefined}
        value={address}
        placeholder={placeholder}
        onChange={(changed) => onChange({ ...fields, address: changed })}
        note={note}
      />
      <SelectField
        field={`${side}.login`}
        label={`${title} login`}
        value={login}
        choices={logins.map((kind) => [kind, LOGIN_WORDS[kind]] as const)}
        onChange={(changed) => onChange({ ...fields, login: changed })}
      />
      {login === "basic" && (
        <TextField
          field={`${side}.user`}
          label={`${title} user`}
          isOfLogin
          value={username}
          onChange={(changed) => onChange({ ...fields, username: changed })}
        />
      )}
      {login === "oauth2" && <ClientFields side={side} fields={fields} onChange={onChange} />}
      {secretWord !== undefined && (
        <TextField
          field={`${side}.auth`}
          label={`${title} ${secretWord}`}
          isOfLogin
          isSecret
          value={secret}
          onChange={(changed) => onChange({ ...fields, secret: changed })}
          note="Enter the secret itself, or a reference to it: env:NAME or file:/path."
        />
      )}
      {children}
    </Part>
  );
}

/** Client credentials of OAuth, without the secret. */
function ClientFields({
  side,
  fields,
  onChange,
}: {
  side: "source" | "target";
  fields: EndpointFields;
  onChange: (fields: EndpointFields) => void;
}) {
  const name = `${side}.auth.oauth2`;
  return (
    <>
      <TextField
        field={`${name}.token_url`}
        isOfLogin
        value={fields.tokenUrl}
        placeholder="https://c.example/oauth2/token"
        onChange={(tokenUrl) => onChange({ ...fields, tokenUrl })}
      />
      <TextField
        field={`${name}.client_id`}
        isOfLogin
        value={fields.clientId}
        onChange={(clientId) => onChange({ ...fields, clientId })}
      />
      <TextField
        field={`${name}.scope`}
        isOfLogin
        value={fields.scope}
        onChange={(scope) => onChange({ ...fields, scope })}
        note="Leave empty for the default scope of the token server."
      />
    </>
  );
}

/**
 * Whether the element is a user name or secret field, which is not checked before typing has ended.
 */
export function isOfLogin(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.dataset.login !== undefined;
}
