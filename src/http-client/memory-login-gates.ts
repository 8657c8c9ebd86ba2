/** Login gates of a single process, for commands that run without a store. */
import { type Runtime, randomHex } from "../base/index.ts";
import {
  admitLogin,
  LOGIN_RECORD_EMPTY,
  type Login,
  LoginGatedError,
  type LoginGates,
  type LoginRecord,
  type LoginVerdict,
  type SettleLogin,
  settleLogin,
} from "./login-gate.ts";

export class MemoryLoginGates implements LoginGates {
  readonly #runtime: Pick<Runtime, "clock" | "random">;
  readonly #records = new Map<string, LoginRecord>();

  constructor(runtime: Pick<Runtime, "clock" | "random">) {
    this.#runtime = runtime;
  }

  /** Rejects immediately if the gate is closed, because a user can correct the password. */
  async enter(login: Login): Promise<SettleLogin> {
    const { clock, random } = this.#runtime;
    const id = randomHex(random);
    const key = keyOf(login);
    const record = this.#records.get(key) ?? LOGIN_RECORD_EMPTY;
    const admission = admitLogin(record, { ...login, id }, clock.nowMs());
    if (admission.kind === "closed") {
      throw new LoginGatedError(login, admission.untilMs, admission.isRefused);
    }
    this.#records.set(key, admission.record);
    return (verdict) => this.#settle(login, id, verdict);
  }

  report(login: Login, verdict: LoginVerdict): Promise<void> {
    return this.#settle(login, "", verdict);
  }

  async #settle(login: Login, id: string, verdict: LoginVerdict): Promise<void> {
    const record = this.#records.get(keyOf(login)) ?? LOGIN_RECORD_EMPTY;
    const nowMs = this.#runtime.clock.nowMs();
    this.#records.set(keyOf(login), settleLogin(record, { ...login, id, verdict }, nowMs));
  }
}

function keyOf({ origin, account }: Login): string {
  return JSON.stringify([origin, account]);
}
