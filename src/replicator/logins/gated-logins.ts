/** Accounts whose logins have to wait, and the jobs that wait for them. */
import type { KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import type { JobLists } from "../job-lists/job-lists.ts";
import type { JobEntry } from "../job-lists/job-views.ts";
import { hasEnded } from "../jobs/job-data.ts";
import { type Account, accountOf, secretsOf } from "../request/authentication-schemes.ts";
import { parseUrl } from "../request/endpoint-url.ts";
import type { HttpAddress } from "../request/replication.ts";
import type { GatedAccount, StoredLoginGates } from "./stored-login-gates.ts";

/** Maximum number of failing jobs that are read to count the waiting jobs of each account. */
const COUNTED_JOBS_MAX = 2_000;
/** Failure classes of rejected logins. */
const LOGIN_CLASSES = ["unauthorized", "forbidden"] as const;

export interface GatedLogin extends GatedAccount {
  /** Number of jobs that wait; undefined if there are too many failing jobs to count. */
  readonly jobCount: number | undefined;
}

/** Rules whose source cannot be listed, by name. */
export interface FailingRules {
  failures(): Promise<
    ReadonlyMap<string, { readonly cause?: { readonly host: string | undefined } }>
  >;
}

export interface GatedLoginsParts {
  readonly kv: KeyValueStore;
  readonly lists: JobLists;
  readonly loginGates: StoredLoginGates;
  readonly rules: FailingRules;
}

export class GatedLogins {
  readonly #parts: GatedLoginsParts;

  constructor(parts: GatedLoginsParts) {
    this.#parts = parts;
  }

  /** Returns all gated accounts for which a job or rule waits. */
  async accounts(): Promise<readonly GatedAccount[]> {
    return (await this.#waiting()).map(({ account }) => account);
  }

  /** Returns a page of gated accounts, ordered by the time of the next login attempt. */
  async page({
    skip,
    limit,
  }: {
    readonly skip: number;
    readonly limit: number;
  }): Promise<{ readonly logins: readonly GatedLogin[]; readonly total: number }> {
    const waiting = await this.#waiting();
    const logins = waiting
      .slice(skip, skip + limit)
      .map(({ account, jobCount }) => ({ ...account, jobCount }));
    return { logins, total: waiting.length };
  }

  /** Returns the gated account for which each job waits, if any, in the order of `entries`. */
  ofJobs(entries: readonly JobEntry[]): Promise<readonly (GatedAccount | undefined)[]> {
    if (!entries.some((entry) => loginOf(entry) !== undefined)) {
      return Promise.resolve(entries.map(() => undefined));
    }
    return this.#parts.kv.read((tx) => this.#gates(tx, entries));
  }

  /**
   * Returns the gated accounts for which a job or rule waits. Omits accounts whose jobs were
   * removed or have new credentials: the gate of such an account is closed only for the old
   * credentials.
   */
  async #waiting(): Promise<
    readonly { readonly account: GatedAccount; readonly jobCount: number | undefined }[]
  > {
    const { kv, loginGates, rules } = this.#parts;
    const accounts = await kv.read((tx) => loginGates.list(tx));
    if (accounts.length === 0) return [];
    const [counts, failures] = await Promise.all([this.#jobCounts(), rules.failures()]);
    const ruleHosts = new Set([...failures.values()].map(({ cause }) => cause?.host));
    return accounts.flatMap((account) => {
      const found = counts?.get(nameOf(account));
      const isNeeded = counts === undefined || found !== undefined;
      const host = parseUrl(account.origin)?.host;
      if (!isNeeded && !(host !== undefined && ruleHosts.has(host))) return [];
      return [{ account, jobCount: counts && (found?.waitingCount ?? 0) }];
    });
  }

  /**
   * Returns the number of waiting jobs for each account with failing jobs; undefined if there are
   * too many failing jobs to read.
   */
  async #jobCounts(): Promise<ReadonlyMap<string, { waitingCount: number }> | undefined> {
    const counts = new Map<string, { waitingCount: number }>();
    let readCount = 0;
    for (const error of LOGIN_CLASSES) {
      for await (const entry of this.#parts.lists.all({ error })) {
        if (++readCount > COUNTED_JOBS_MAX) return undefined;
        const address = rejectedAt(entry.data);
        const account = address && accountOf(address);
        if (account === undefined) continue;
        const name = nameOf(account);
        const count = counts.get(name) ?? { waitingCount: 0 };
        if (loginOf(entry) !== undefined) count.waitingCount++;
        counts.set(name, count);
      }
    }
    return counts;
  }

  async #gates(
    tx: ReadTransaction,
    entries: readonly JobEntry[],
  ): Promise<readonly (GatedAccount | undefined)[]> {
    // Most jobs of a page have the same credentials, so read each gate only once.
    const known = new Map<string, Promise<GatedAccount | undefined>>();
    return Promise.all(
      entries.map((entry) => {
        const address = loginOf(entry);
        if (address === undefined) return undefined;
        const name = JSON.stringify([accountOf(address), secretsOf(address), address.references]);
        const gate = known.get(name) ?? this.#parts.loginGates.closed(tx, address);
        known.set(name, gate);
        return gate;
      }),
    );
  }
}

/** Returns the account whose rejected password a user can replace, if any. */
export function replaceableLogin({ data }: Pick<JobEntry, "data">): Account | undefined {
  const address = rejectedAt(data);
  return address?.basic === undefined ? undefined : accountOf(address);
}

/** Returns the address where the login of a waiting job was rejected. */
function loginOf({ data, state }: JobEntry): HttpAddress | undefined {
  return state === "running" || hasEnded(state) ? undefined : rejectedAt(data);
}

function rejectedAt({ failing, replication }: JobEntry["data"]): HttpAddress | undefined {
  if (failing?.side === undefined) return undefined;
  const isLogin = LOGIN_CLASSES.some((name) => name === failing.class);
  const address = replication?.[failing.side];
  return isLogin && address?.kind === "http" ? address : undefined;
}

function nameOf({ origin, account }: Pick<GatedAccount, "origin" | "account">): string {
  return JSON.stringify([origin, account]);
}
