/** `_session`: who one is, and cookies instead of passwords (`chttpd_auth`). */

import { utf8Decode } from "../base/index.ts";
import { badRequest, ProtocolError, parseMediaType } from "../protocol/index.ts";
import type { Call } from "./call.ts";
import type { ApiResponse } from "./exchange.ts";
import { checkJson, readBytes } from "./request-body.ts";
import { json } from "./responses.ts";
import { defineRoute, type Route } from "./router.ts";

/** Who can prove that it is somebody. */
export interface SessionAuthority {
  isAdmin(name: string, password: string): Promise<boolean>;
  /** The value of the cookie for a user who logged in. */
  cookie(name: string): string;
  readonly sessionSecMax: number;
}

/** Of a form with a name and a password. */
const FORM_BYTES_MAX = 65_536;

export function sessionRoutes(authority: SessionAuthority): readonly Route[] {
  const open = { access: "public" } as const;
  return [
    defineRoute("GET", "/_session", showSession, open),
    defineRoute("POST", "/_session", (call) => logIn(authority, call), open),
    defineRoute("DELETE", "/_session", logOut, open),
  ];
}

async function showSession({ user, request }: Call): Promise<ApiResponse> {
  const byCookie = request.headers.has("cookie") && !request.headers.has("authorization");
  const authenticated =
    user.name === null ? {} : { authenticated: byCookie ? "cookie" : "default" };
  return json(200, {
    ok: true,
    userCtx: { name: user.name, roles: user.roles },
    info: { authentication_handlers: ["cookie", "default"], ...authenticated },
  });
}

async function logIn(authority: SessionAuthority, call: Call): Promise<ApiResponse> {
  const { name, password } = await readCredentials(call);
  if (!(await authority.isAdmin(name, password))) {
    throw new ProtocolError(401, "unauthorized", "Name or password is incorrect.");
  }
  const cookie = `AuthSession=${authority.cookie(name)}; Version=1; Max-Age=${authority.sessionSecMax}; Path=/; HttpOnly`;
  return json(200, { ok: true, name, roles: ["_admin"] }, { "Set-Cookie": cookie });
}

async function logOut(): Promise<ApiResponse> {
  const cookie = "AuthSession=; Version=1; Max-Age=0; Path=/; HttpOnly";
  return json(200, { ok: true }, { "Set-Cookie": cookie });
}

/** From a form, or from JSON. */
async function readCredentials(call: Call): Promise<{ name: string; password: string }> {
  const bytes = await readBytes(call.request.body, FORM_BYTES_MAX);
  const { type } = parseMediaType(call.request.headers.get("content-type") ?? "");
  let name: unknown;
  let password: unknown;
  if (type === "application/x-www-form-urlencoded") {
    const form = new URLSearchParams(formText(bytes));
    name = form.get("name") ?? form.get("username");
    password = form.get("password");
  } else if (type === "application/json") {
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
