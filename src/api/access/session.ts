/**
 * `_session`: returns the user of a request, and issues cookies to replace passwords
 * (`chttpd_auth`).
 */
import { utf8Decode } from "../../base/index.ts";
import { badRequest, ProtocolError, parseMediaType } from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiRequest, ApiResponse } from "../http/exchange.ts";
import { checkJson, readBytes } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { PUBLIC } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Interface for authentication, implemented by the server. */
export interface SessionAuthority {
  /** Names of the authentication handlers, as in `authentication_handlers`. */
  readonly handlers: readonly string[];
  /**
   * Returns the user's roles and a `Set-Cookie` header; undefined for a wrong name or password.
   * Throws a ProtocolError 403 for a user and address with too many failed attempts.
   */
  logIn(
    name: string,
    password: string,
    request: ApiRequest,
  ): Promise<{ readonly roles: readonly string[]; readonly cookie: string } | undefined>;
  /** A `Set-Cookie` header that ends the session. */
  clearedCookie(request: ApiRequest): string;
}

const FORM_TYPE = "application/x-www-form-urlencoded";
const JSON_TYPE = "application/json";

/** Maximum size of a login form. */
const FORM_BYTES_MAX = 65_536;

export function sessionRoutes(authority: SessionAuthority): readonly Route[] {
  return [
    defineRoute("GET", "/_session", PUBLIC, (call) => showSession(authority, call)),
    defineRoute("POST", "/_session", { ...PUBLIC, acceptsForms: true }, (call) =>
      logIn(authority, call),
    ),
    defineRoute("DELETE", "/_session", PUBLIC, (call) => logOut(authority, call)),
  ];
}

async function showSession(
  { handlers }: SessionAuthority,
  { user, request }: Call,
): Promise<ApiResponse> {
  if (user.name === null && request.query.get("basic") === "true") {
    throw new ProtocolError(401, "unauthorized", "Please login.");
  }
  return json(200, {
    ok: true,
    userCtx: { name: user.name, roles: user.roles },
    info: {
      authentication_handlers: handlers,
      ...(user.handler === undefined ? {} : { authenticated: user.handler }),
    },
  });
}

async function logIn(authority: SessionAuthority, call: Call): Promise<ApiResponse> {
  const { name, password } = await readCredentials(call);
  const session = await authority.logIn(name, password, call.request);
  if (session === undefined) {
    const body = { error: "unauthorized", reason: "Name or password is incorrect." };
    return json(401, body, { "Set-Cookie": authority.clearedCookie(call.request) });
  }
  return json(200, { ok: true, name, roles: session.roles }, { "Set-Cookie": session.cookie });
}

async function logOut(authority: SessionAuthority, { request }: Call): Promise<ApiResponse> {
  return json(200, { ok: true }, { "Set-Cookie": authority.clearedCookie(request) });
}

/** Parses the credentials from a form or from JSON. */
async function readCredentials(call: Call): Promise<{ name: string; password: string }> {
  const { type } = parseMediaType(call.request.headers.get("content-type") ?? "");
  if (type !== FORM_TYPE && type !== JSON_TYPE) {
    const reason = `Content-Type must be ${FORM_TYPE} or ${JSON_TYPE}`;
    throw new ProtocolError(415, "bad_content_type", reason);
  }
  const bytes = await readBytes(call, call.request.body, FORM_BYTES_MAX);
  let name: unknown;
  let password: unknown;
  if (type === FORM_TYPE) {
    const form = new URLSearchParams(formText(bytes));
    name = form.get("name") ?? form.get("username");
    password = form.get("password");
  } else {
    const body = JSON.parse(checkJson(bytes));
    name = body?.name ?? body?.username;
    password = body?.password;
  }
  if (typeof name !== "string") throw badRequest("request body must contain a username");
  if (typeof password !== "string") throw badRequest("request body must contain a password");
  return { name, password };
}

function formText(bytes: Uint8Array): string {
  try {
    return utf8Decode(bytes);
  } catch {
    throw badRequest("The form is not UTF-8 encoded");
  }
}
