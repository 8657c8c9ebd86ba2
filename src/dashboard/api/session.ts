/** The user of the dashboard: `_session`. */
import { get, RequestError, request } from "./request.ts";

export interface Session {
  /**
   * User name; null for an anonymous user, who has administrator rights if no administrators are
   * configured.
   */
  readonly name: string | null;
  /** Whether the user is allowed to read jobs and nodes. */
  readonly reads: boolean;
  /** Whether the user is allowed to change jobs and nodes. */
  readonly changes: boolean;
}

interface SessionAnswer {
  readonly userCtx: { readonly name: string | null; readonly roles: readonly string[] };
}

const STRANGER: SessionAnswer = { userCtx: { name: null, roles: [] } };

export async function readSession(): Promise<Session> {
  const { userCtx } = await get<SessionAnswer>("_session").catch((error: unknown) => {
    // With `require_valid_user`, the node responds with 401 to anonymous requests.
    if (error instanceof RequestError && error.status === 401) return STRANGER;
    throw error;
  });
  const changes = userCtx.roles.includes("_admin");
  return {
    name: userCtx.name,
    reads: changes || userCtx.roles.includes("_tandem_reader"),
    changes,
  };
}

/** Opens a session. Throws a RequestError 401 for a wrong name or password. */
export async function logIn(name: string, password: string): Promise<Session> {
  await request("POST", "_session", { body: { name, password } });
  return readSession();
}

export async function logOut(): Promise<void> {
  await request("DELETE", "_session");
}
