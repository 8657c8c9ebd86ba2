/**
 * Replaces the credentials of the jobs that log in to a server as a given user with a password. The
 * jobs need not have documents. The replacement counts as an operator's decision about each job: a
 * running job writes a checkpoint and restarts with the new credentials, a failed job is due
 * immediately, and a paused job stays paused. Documents get the credentials in a new revision.
 * Rules get the credentials for their future jobs.
 */
import {
  type JsonText,
  joinObject,
  parseJson,
  printJson,
  type Runtime,
  splitObject,
} from "../base/index.ts";
import { type Authority, type DatabaseRegistry, ownerKey } from "../databases/index.ts";
import type { Job, Jobs } from "../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../kv/index.ts";
import type { Chains } from "./chains/chains.ts";
import { type Entitlement, isDetour, isEntitled } from "./credential-entitlement.ts";
import { rewriteDocuments } from "./documents/replication-document.ts";
import type { JobFilter } from "./job-lists/job-filter.ts";
import type { JobLists } from "./job-lists/job-lists.ts";
import { classOfError } from "./jobs/failing.ts";
import { matchesCause } from "./jobs/failure-cause.ts";
import type { Decider } from "./jobs/job-control.ts";
import type { JobControls } from "./jobs/job-controls.ts";
import { hasEnded, REPLICATION_JOB_TYPE, type ReplicationJobData } from "./jobs/job-data.ts";
import { decodeJob, encodeRequest, isReadable, splitJobData } from "./jobs/job-data-record.ts";
import { describeJob, jobTrace } from "./jobs/job-trace.ts";
import type { StoredLoginGates } from "./logins/stored-login-gates.ts";
import { secretOf, secretsOf } from "./request/authentication-schemes.ts";
import { endpointUrl, parseUrl } from "./request/endpoint-url.ts";
import { type Side, withAuth } from "./request/parse-endpoint.ts";
import { isObject, type Members, ReplicationInvalidError } from "./request/parse-fields.ts";
import type { HttpAddress, Replication } from "./request/replication.ts";
import type { Rules } from "./rules/rules.ts";

const SIDES: readonly Side[] = ["source", "target"];
/** Filter members that select the cause of a failure. */
const CAUSE_MEMBERS: readonly string[] = ["error", "side", "host"];
/** Maximum number of owners of skipped jobs that are reported by name. */
const OWNERS_MAX = 10;

export interface CredentialReplacement {
  /** Scheme, host and port of the server: `https://couch.example`. */
  readonly origin: string;
  /** User name or client id with which jobs currently log in. */
  readonly username: string;
  /** Restricts the replacement to one side of the jobs; both sides if undefined. */
  readonly side: Side | undefined;
  /** New credentials, as in `auth` of a document. */
  readonly auth: Members;
  /**
   * Restricts the replacement to the jobs of one owner (a key as returned by `ownerKey`); all
   * entitled jobs if undefined.
   */
  readonly owner?: string | undefined;
  /** Path of the server's root, ending in a slash. */
  readonly rootPath: string;
}

/**
 * - replaced: the job has the new credentials
 * - unmatched: the job uses other credentials, or does not exist
 * - withheld: the job belongs to another user, and nothing shows that its old credential was valid
 * - refused: the job's document no longer exists, or could not be written
 */
export type ReplacementOutcome = "replaced" | "unmatched" | "withheld" | "refused";

/** Parses a JSON object. Throws a ReplicationInvalidError naming the member. */
export function parseReplacement({
  host,
  username,
  side,
  auth,
  owner,
}: Members): CredentialReplacement {
  const url = typeof host === "string" ? parseUrl(host) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new ReplicationInvalidError("`host` must be an http:// or https:// URL");
  }
  if (typeof username !== "string")
    throw new ReplicationInvalidError("`username` must be a string");
  if (side !== undefined && side !== "source" && side !== "target") {
    throw new ReplicationInvalidError("if defined, `side` must be source or target");
  }
  if (!isObject(auth)) throw new ReplicationInvalidError("`auth` must be an object");
  const address = withAuth("source", { kind: "http", url: url.href, headers: {} }, auth);
  if (secretsOf(address).length === 0 && address.headers.authorization === undefined) {
    throw new ReplicationInvalidError("`auth` must contain an authentication scheme");
  }
  if (owner !== undefined && typeof owner !== "string") {
    throw new ReplicationInvalidError("if defined, `owner` must be the name of a user");
  }
  const rootPath = url.pathname.endsWith("/") ? url.pathname : `${url.pathname}/`;
  return { origin: url.origin, username, side, auth, owner, rootPath };
}

/**
 * Content of a command that replaces credentials. `rules` are the names of the rules to change
 * after the jobs.
 */
export interface ReplacementContent {
  readonly replacement: CredentialReplacement;
  readonly entitlement: Entitlement;
  readonly rules: readonly string[];
}

/** The jobs and rules that a replacement would change. */
export interface FoundReplacement {
  readonly jobIds: readonly string[];
  /** Number of affected jobs that have a document. */
  readonly documentCount: number;
  /**
   * Jobs of other owners that log in with the same user name but are not entitled to the
   * credentials.
   */
  readonly withheld: { readonly count: number; readonly owners: readonly (string | null)[] };
  readonly content: ReplacementContent;
}

export interface CredentialReplacementsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly controls: JobControls;
  readonly chains: Chains;
  readonly databases: DatabaseRegistry;
  readonly lists: JobLists;
  readonly loginGates: Pick<StoredLoginGates, "open">;
}

export class CredentialReplacements {
  readonly #parts: CredentialReplacementsParts;
  readonly #rules: Rules;

  constructor(parts: CredentialReplacementsParts, rules: Rules) {
    this.#parts = parts;
    this.#rules = rules;
  }

  /** Whether the job logs in as the user. Excludes ended jobs without a document. */
  concerns(replacement: CredentialReplacement, data: ReplicationJobData): boolean {
    if (data.document === undefined && hasEnded(data.state)) return false;
    return sidesOf(replacement, data.replication).length > 0;
  }

  /**
   * Whether the job is entitled to the credential. May only be called if `concerns` is true for the
   * job.
   */
  isEntitled(
    replacement: CredentialReplacement,
    data: ReplicationJobData,
    entitlement: Entitlement,
  ): boolean {
    const authority = data.rule === undefined ? data : ofRule(data);
    return isEntitled(authority, addressPairs(replacement, data.replication), entitlement);
  }

  /**
   * Finds the jobs and rules that a replacement would change. With `filter`, finds only matching
   * jobs and the rules that created them. If the filter selects failing jobs, also finds rules
   * whose login at the server was rejected.
   */
  async find(
    replacement: CredentialReplacement,
    caller: Authority,
    filter?: JobFilter,
  ): Promise<FoundReplacement> {
    const selected = filter && (await this.#selected(filter));
    const evidence = new Evidence();
    const unproven = entitlementOf(replacement, caller);
    let found = await this.#findJobs(replacement, unproven, selected, evidence);
    const entitlement = entitlementOf(replacement, caller, evidence.validPassword);
    if (found.withheld.count > 0 && evidence.validPassword !== undefined) {
      found = await this.#findJobs(replacement, entitlement, selected, evidence);
    }
    const { ofJobs, ...jobs } = found;
    const rules: string[] = [];
    if (filter !== undefined) {
      for (const name of await this.#failingRules(replacement, entitlement, filter))
        ofJobs.add(name);
    }
    for (const name of filter === undefined ? await this.#rules.names() : ofJobs) {
      if (await this.replaceInRule(name, replacement, { isDryRun: true, entitlement }))
        rules.push(name);
    }
    return { ...jobs, content: { replacement, entitlement, rules } };
  }

  /**
   * Finds the entitled jobs among `selected` (undefined for all), and the rules of these jobs. Adds
   * the logins of all jobs to the evidence.
   */
  async #findJobs(
    replacement: CredentialReplacement,
    entitlement: Entitlement,
    selected: ReadonlySet<string> | undefined,
    evidence: Evidence,
  ): Promise<Omit<FoundReplacement, "content"> & { readonly ofJobs: Set<string> }> {
    const jobIds: string[] = [];
    const owners = new Set<string | null>();
    const ofJobs = new Set<string>();
    let [documentCount, withheldCount] = [0, 0];
    for await (const { jobId, data } of this.#concerned(replacement)) {
      evidence.add(replacement, data);
      if (selected?.has(jobId) === false) continue;
      if (!this.isEntitled(replacement, data, entitlement)) {
        withheldCount++;
        if (owners.size < OWNERS_MAX) owners.add(ownerKey(data));
        continue;
      }
      jobIds.push(jobId);
      if (data.document !== undefined) documentCount++;
      if (data.rule !== undefined) ofJobs.add(data.rule);
    }
    const withheld = { count: withheldCount, owners: [...owners] };
    return { jobIds, documentCount, withheld, ofJobs };
  }

  /**
   * Returns the rules whose login at the server was rejected when they listed its databases.
   * Returns no rules unless the filter selects failing jobs by rule or cause alone.
   */
  async #failingRules(
    replacement: CredentialReplacement,
    entitlement: Entitlement,
    { failing, databaseUuid, ...cause }: JobFilter,
  ): Promise<readonly string[]> {
    const members = Object.keys(cause);
    const selectsFailing = failing ?? members.length > 0;
    const isCause = members.every((member) => CAUSE_MEMBERS.includes(member));
    if (!selectsFailing || !isCause || replacement.side === "target") return [];
    const at = { side: "source", host: new URL(replacement.origin).host } as const;
    const listing = { ...replacement, side: at.side };
    const names: string[] = [];
    for (const [name, failure] of await this.#rules.failures()) {
      const failureClass = classOfError(failure.error);
      const isRejected = failureClass === "unauthorized" || failureClass === "forbidden";
      if (!isRejected || !matchesCause(cause, { ...at, class: failureClass })) continue;
      const uuid = databaseUuid && (await this.#rules.uuidOf(name));
      if (uuid !== databaseUuid) continue;
      if (await this.replaceInRule(name, listing, { isDryRun: true, entitlement }))
        names.push(name);
    }
    return names;
  }

  async #selected(filter: JobFilter): Promise<ReadonlySet<string>> {
    const ids = new Set<string>();
    for await (const page of this.#parts.lists.ids(filter)) for (const id of page) ids.add(id);
    return ids;
  }

  /** Yields the jobs that log in as the user. Reads the lists of jobs by host. */
  async *#concerned(replacement: CredentialReplacement): AsyncIterable<FoundJob> {
    const { kv, jobs, lists } = this.#parts;
    const { host } = new URL(replacement.origin);
    const sides = SIDES.filter(
      (side) => replacement.side === undefined || side === replacement.side,
    );
    for (const side of sides) {
      for await (const ids of lists.ids({ [side]: host })) {
        const found = await kv.read((tx) => jobs.getMany(tx.snapshot, REPLICATION_JOB_TYPE, ids));
        for (const job of found.filter(isReadable)) {
          const data = decodeJob(job);
          if (!this.concerns(replacement, data)) continue;
          // A job that logs in as this user on both sides is in both lists: yield it only once.
          const isListed = sidesOf(replacement, data.replication)[0] === side;
          if (isListed) yield { jobId: job.id, data };
        }
      }
    }
  }

  /** Opens the login gate for the new credentials, so that their next login does not wait. */
  async openGate(
    tx: Transaction,
    { origin, rootPath, auth }: CredentialReplacement,
  ): Promise<void> {
    const address: HttpAddress = { kind: "http", url: `${origin}${rootPath}`, headers: {} };
    await this.#parts.loginGates.open(tx, withAuth("source", address, auth), true);
  }

  /**
   * Replaces the credentials of the jobs and their documents, without opening the login gate:
   * logins of the account still wait. Returns the outcome of each job.
   */
  async replace(
    tx: Transaction,
    jobIds: readonly string[],
    replacement: CredentialReplacement,
    decider: Decider,
    entitlement: Entitlement,
  ): Promise<ReadonlyMap<string, ReplacementOutcome>> {
    const { databases } = this.#parts;
    const outcomes = new Map<string, ReplacementOutcome>(jobIds.map((id) => [id, "unmatched"]));
    const concerned: ConcernedJob[] = [];
    for (const job of await this.#withRequests(tx, jobIds)) {
      if (!isReadable(job)) continue;
      const data = decodeJob(job);
      const { replication } = data;
      if (replication === undefined || !this.concerns(replacement, data)) continue;
      const isEntitledToIt = this.isEntitled(replacement, data, entitlement);
      outcomes.set(job.id, isEntitledToIt ? "refused" : "withheld");
      const sides = sidesOf(replacement, replication);
      if (isEntitledToIt) concerned.push({ job, data, replication, sides });
    }
    const sidesIn = new Map(concerned.map(({ data, sides }) => [data.document, sides]));
    const documents = concerned.flatMap(({ data }) => data.document ?? []);
    const written = await rewriteDocuments(tx, databases, documents, (document, { body }) =>
      bodyWithAuth(body.text, sidesIn.get(document) ?? [], replacement.auth),
    );
    for (const { job, data, replication, sides } of concerned) {
      if (data.document !== undefined && !written.has(data.document)) continue;
      const changed = sides.map((side) => [
        side,
        withAuth(side, replication[side] as HttpAddress, replacement.auth),
      ]);
      const after: Replication = { ...replication, ...Object.fromEntries(changed) };
      await this.#schedule(tx, job, { ...data, replication: after, refusal: undefined }, decider);
      outcomes.set(job.id, "replaced");
    }
    return outcomes;
  }

  /** Returns the jobs. A job of format 1 has no separate request, and is converted first. */
  async #withRequests(tx: Transaction, jobIds: readonly string[]): Promise<readonly Job[]> {
    const { jobs } = this.#parts;
    const found = await jobs.getMany(tx, REPLICATION_JOB_TYPE, jobIds);
    const old = found.filter(({ request }) => request === undefined);
    if (old.length === 0) return found;
    for (const name of old) await jobs.renewRequest(tx, name, splitJobData);
    return jobs.getMany(tx, REPLICATION_JOB_TYPE, jobIds);
  }

  /**
   * Replaces the credentials on those sides of a rule that log in as the user. Returns false if
   * there is no such side or the rule is not entitled to the credentials. With `isDryRun`, writes
   * nothing. Jobs that already have the new credentials are not affected.
   */
  async replaceInRule(
    name: string,
    replacement: CredentialReplacement,
    { isDryRun, entitlement }: { readonly isDryRun: boolean; readonly entitlement?: Entitlement },
  ): Promise<boolean> {
    let concernsRule = false;
    const isChanged = await this.#rules.amend(name, (members, sample, owner) => {
      const sides = sidesOf(replacement, sample);
      const given = entitlement ?? entitlementOf(replacement, owner);
      concernsRule =
        sides.length > 0 && isEntitled(ofRule(owner), addressPairs(replacement, sample), given);
      if (isDryRun || !concernsRule) return undefined;
      const changed = sides.map((side) => [
        side,
        endpointWithAuth(members[side], replacement.auth),
      ]);
      return { ...members, ...Object.fromEntries(changed) };
    });
    return isDryRun ? concernsRule : isChanged;
  }

  async #schedule(
    tx: Transaction,
    job: Job,
    data: ReplicationJobData,
    decider: Decider,
  ): Promise<void> {
    const { jobs, controls, runtime, chains } = this.#parts;
    const action = "replace-credentials";
    const control = await controls.get(tx, job.id);
    const nowMs = runtime.clock.nowMs();
    const { requestId, ...decision } = decider;
    controls.decide(tx, job.id, control, { ...decision, action, timeMs: nowMs });
    const nowSec = Math.floor(nowMs / 1000);
    const request = encodeRequest(data);
    const isWaiting = job.state === "pending" && !control.isPaused && !hasEnded(data.state);
    if (job.state === "running") await jobs.resubmit(tx, job, nowSec, undefined, request);
    else if (isWaiting) {
      const dueSec = Math.min(job.scheduledAtSec, await chains.dueSec(tx, job.id, data));
      await jobs.resubmit(tx, job, dueSec, undefined, request);
    } else await jobs.setRequest(tx, job, request);
    const trace = jobTrace(runtime.trace, describeJob(job.id, data));
    const { userName, why } = decider;
    tx.afterCommit(() =>
      trace.event("replication.controlled", { jobId: job.id, action, userName, why, requestId }),
    );
  }
}

interface FoundJob {
  readonly jobId: string;
  readonly data: ReplicationJobData;
}

/** A job that is entitled to new credentials, and the sides that log in with them. */
interface ConcernedJob {
  readonly job: Job;
  readonly data: ReplicationJobData;
  readonly replication: Replication;
  readonly sides: readonly Side[];
}

function entitlementOf(
  { owner, rootPath }: CredentialReplacement,
  caller: Authority,
  validPassword?: string,
): Entitlement {
  return { caller, owner, validPassword, rootPath };
}

/** Finds the password with which a job last reached both servers. */
class Evidence {
  #answeredMs = 0;
  validPassword: string | undefined;

  add(
    replacement: Omit<CredentialReplacement, "owner">,
    { replication, answeredMs = 0 }: ReplicationJobData,
  ): void {
    const [address] = addressesOf(replication, sidesOf(replacement, replication));
    if (address === undefined || answeredMs <= this.#answeredMs) return;
    if (isDetour(address, replacement.rootPath)) return;
    this.#answeredMs = answeredMs;
    this.validPassword = secretOf(address);
  }
}

/**
 * Returns the sides that log in to the server as the user. If the new credentials are those of an
 * OAuth client, also returns the sides that log in as that client; otherwise, a password could take
 * the place of a client's secret.
 */
function sidesOf(
  {
    origin,
    username,
    side,
    auth,
  }: Pick<CredentialReplacement, "origin" | "username" | "side" | "auth">,
  replication: Replication | undefined,
): Side[] {
  return SIDES.filter((each) => {
    const address = replication?.[each];
    if (address?.kind !== "http" || (side !== undefined && side !== each)) return false;
    const { basic, oauth2 } = address;
    const name = basic?.username ?? (isObject(auth.oauth2) ? oauth2?.clientId : undefined);
    return name === username && endpointUrl(address).origin === origin;
  });
}

/**
 * Returns the authority of a rule. Only server admins can write rules, but older versions did not
 * record that the author is an admin.
 */
function ofRule(authority: Authority): Authority {
  return { ...authority, wasAdmin: authority.wasAdmin ?? true };
}

function addressesOf(
  replication: Replication | undefined,
  sides: readonly Side[],
): readonly HttpAddress[] {
  return sides.map((side) => (replication as Replication)[side] as HttpAddress);
}

/** Returns the endpoints that log in as the user, with their old and their new credentials. */
function addressPairs(
  replacement: CredentialReplacement,
  replication: Replication | undefined,
): { readonly before: readonly HttpAddress[]; readonly after: readonly HttpAddress[] } {
  const sides = sidesOf(replacement, replication);
  const before = addressesOf(replication, sides);
  const after = before.map((address, at) => withAuth(sides[at] as Side, address, replacement.auth));
  return { before, after };
}

/** Sets the credentials for these sides; other members are unchanged. */
function bodyWithAuth(body: JsonText, sides: readonly Side[], auth: Members): JsonText {
  const members = splitObject(body).map((member) => {
    if (!sides.some((side) => side === member.name)) return member;
    const { name, value } = member;
    return { name, value: printJson(endpointWithAuth(parseJson(value), auth)) };
  });
  return joinObject(members);
}

function endpointWithAuth(endpoint: unknown, auth: Members): Members {
  const { url, headers, ...rest } = isObject(endpoint)
    ? endpoint
    : { url: endpoint, headers: undefined };
  const bare = String(url).replace(/^(https?:\/\/)[^/?#]*@/i, "$1");
  if (!isObject(headers)) return { ...rest, url: bare, auth };
  const kept = Object.entries(headers).filter(([name]) => name.toLowerCase() !== "authorization");
  return { ...rest, url: bare, headers: Object.fromEntries(kept), auth };
}
