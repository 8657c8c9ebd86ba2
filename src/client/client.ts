/** The API client of the package, typed from the contract. */
import { LatestValues, parseJson } from "../base/index.ts";
import type {
  AlertDelivery,
  Budget,
  BudgetPage,
  BudgetRow,
  BulkCommand,
  CommandedJobs,
  ConflictCounts,
  ConflictPage,
  ConflictPolicy,
  ConflictPolicyStatus,
  ConflictRow,
  DocumentFailure,
  Done,
  DrainedNodes,
  EndpointPage,
  EndpointRow,
  EVENT_FILTERS,
  FailingGroup,
  FailingPage,
  FailurePage,
  GatedLoginPage,
  GroupPage,
  GroupRow,
  JOB_FILTERS,
  Job,
  JobEvent,
  JobPage,
  JobRun,
  NodePage,
  NodeRow,
  PastPage,
  QUERIES,
  QueryValues,
  ResolutionPage,
  ResolutionRow,
  RetriedFailures,
  Rule,
  RulePlan,
  RulesPage,
  RunPage,
  Topology,
} from "../contract/index.ts";
import {
  type CountOptions,
  continuedCommand,
  countJobs,
  followCommand,
  type JobPreview,
} from "./commands.ts";
import {
  conflictsPath,
  type UndoneConflicts,
  type UndoSelection,
  undoResolutions,
} from "./conflicts.ts";
import { followFeed } from "./feed.ts";
import { type Fetch, type QueryParameters, Requests, segmentOf, unexpected } from "./requests.ts";

type Given<Values> = { readonly [Name in keyof Values]?: Values[Name] };

/** Filters of jobs. A job is selected if it matches all of them. */
export type JobFilter = Given<QueryValues<typeof JOB_FILTERS>>;
export type EventFilter = JobFilter & Given<QueryValues<typeof EVENT_FILTERS>>;

export type JobListQuery = Given<QueryValues<(typeof QUERIES)["GET /_tandem/jobs"]>>;
export type PastQuery = Given<QueryValues<(typeof QUERIES)["GET /_tandem/events/_past"]>>;
export type FailingQuery = Given<QueryValues<(typeof QUERIES)["GET /_tandem/failing"]>>;
export type RuleListQuery = Given<QueryValues<(typeof QUERIES)["GET /_tandem/rules"]>>;
/** Range of rows in a list. Default: the first page. */
export type RowRange = Given<QueryValues<(typeof QUERIES)["GET /_tandem/endpoints"]>>;
/** Page of a list with bookmarks. Default: the first page. */
export type BookmarkQuery = Given<QueryValues<(typeof QUERIES)["GET /_tandem/conflicts"]>>;

/** An action on jobs. The reason for it is stored with each job. */
export type JobAction = "pause" | "resume" | "retry" | "reset" | "cancel";

export interface ClientOptions {
  /** Root URL of the server. */
  readonly url: string | URL;
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch;
  /** Headers of every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly auth?: { readonly username: string; readonly password: string };
}

export interface Signaled {
  readonly signal?: AbortSignal | undefined;
}

export interface Reasoned extends Signaled {
  /** Reason for a command, which is stored with the job. */
  readonly why?: string | undefined;
}

/** A rule as JSON. */
export type RuleBody = Readonly<Record<string, unknown>>;

export interface RetriedDocuments extends RetriedFailures {
  /**
   * Whether the retry has ended. If not, the retry continues; for a paused job, after the job is
   * resumed.
   */
  readonly isDone: boolean;
}

/** A command for several jobs: a promise of its result, and an async iterable of its progress. */
export interface RunningCommand extends Promise<CommandResult>, AsyncIterable<BulkCommand> {}

export interface CommandResult {
  /** Id for `commands.undo`; undefined if the server stored no command. */
  readonly id: string | undefined;
  readonly matched: number;
  readonly changed: number;
  /** Number of jobs whose state does not permit the command. */
  readonly failed: number;
}

export type ClientEvent =
  | ({ readonly kind: "job" } & JobEvent)
  /** Events were lost, so lists read earlier are out of date. */
  | { readonly kind: "gap"; readonly place: string }
  /** The feed is connected; events after `place` follow. */
  | { readonly kind: "open"; readonly place: string }
  /** The connection is lost, and will be opened again. */
  | { readonly kind: "lost"; readonly error: unknown };

/** A list: an async iterable of all its rows, read page by page. */
export interface Listing<Row, Page> extends AsyncIterable<Row> {
  /** Reads the page that the query selects. Default: the first page. */
  page(): Promise<Page>;
}

type List<Query, Row, Page> = (query?: Query, options?: Signaled) => Listing<Row, Page>;

export interface Client {
  readonly jobs: {
    /** Lists the jobs that match the query. */
    readonly list: List<JobListQuery, Job, JobPage>;
    /** Counts the jobs that match the filter, and returns the first ones. */
    count(filter?: JobFilter, options?: CountOptions): Promise<JobPreview>;
    get(name: string, options?: Signaled): Promise<Job>;
    /** Lists the last runs of a job, newest first. */
    runs(name: string, query?: RowRange, options?: Signaled): Listing<JobRun, RunPage>;
    /** Lists the documents that were not copied. */
    failures(
      name: string,
      query?: RowRange,
      options?: Signaled,
    ): Listing<DocumentFailure, FailurePage>;
    /**
     * Retries failed documents: those with the given ids, or all. Waits up to 30 s for the result.
     */
    retryFailures(
      name: string,
      ids?: readonly string[],
      options?: Signaled,
    ): Promise<RetriedDocuments>;
    /** Groups failing jobs by cause, or by a tag. */
    readonly failing: List<FailingQuery, FailingGroup, FailingPage>;
    /** Returns the source and target databases of the jobs, as a graph. */
    topology(filter?: JobFilter, options?: Signaled): Promise<Topology>;
    /** Lists accounts whose logins have to wait. */
    readonly logins: List<RowRange, GatedLoginPage["logins"][number], GatedLoginPage>;
    /** Applies an action to one job. */
    command(action: JobAction, name: string, options?: Reasoned): Promise<Done>;
    /** Restarts a job at an update sequence of its source. */
    startFrom(name: string, since: unknown, options?: Reasoned): Promise<Done>;
    /** Applies an action to the jobs that match `filter`. The server rejects an empty filter. */
    commandAll(
      action: JobAction | "retry_failures",
      filter: JobFilter | "all",
      options?: Reasoned,
    ): RunningCommand;
  };
  readonly commands: {
    get(id: string, options?: Signaled): Promise<BulkCommand>;
    /** Yields the progress of a command until it ends. The last value is its final state. */
    follow(id: string, options?: Signaled): AsyncIterable<BulkCommand>;
    cancel(id: string, options?: Signaled): Promise<Done>;
    undo(id: string, options?: Signaled): RunningCommand;
  };
  readonly conflicts: {
    /** Lists databases, each with its number of documents with conflicts. */
    readonly databases: List<BookmarkQuery, ConflictCounts["databases"][number], ConflictCounts>;
    /** Lists the documents of a database that have conflicts. */
    list(
      database: string,
      query?: BookmarkQuery,
      options?: Signaled,
    ): Listing<ConflictRow, ConflictPage>;
    policy(database: string, options?: Signaled): Promise<ConflictPolicyStatus>;
    setPolicy(database: string, policy: ConflictPolicy, options?: Signaled): Promise<Done>;
    removePolicy(database: string, options?: Signaled): Promise<Done>;
    /** Lists the resolutions by the policy, newest first. */
    resolutions(
      database: string,
      query?: BookmarkQuery,
      options?: Signaled,
    ): Listing<ResolutionRow, ResolutionPage>;
    /** Removes the policy and reverts its resolutions: the selected ones, or all. */
    undo(database: string, selection?: UndoSelection, options?: Signaled): Promise<UndoneConflicts>;
  };
  readonly rules: {
    readonly list: List<RuleListQuery, Rule, RulesPage>;
    get(name: string, options?: Signaled): Promise<Rule>;
    put(name: string, rule: RuleBody, options?: Signaled): Promise<Done>;
    /** Returns the effects of a rule without storing it. */
    plan(name: string, rule: RuleBody, options?: Signaled): Promise<RulePlan>;
    remove(name: string, options?: Signaled): Promise<Done>;
    /** Returns the effects of removing a rule, without removing it. */
    planRemoval(name: string, options?: Signaled): Promise<RulePlan>;
  };
  readonly nodes: {
    readonly list: List<Readonly<Record<string, never>>, NodeRow, NodePage>;
    drain(name: string, options?: Signaled): Promise<DrainedNodes>;
    undrain(name: string, options?: Signaled): Promise<DrainedNodes>;
  };
  /** Servers that jobs use, most failing jobs first. */
  readonly endpoints: { readonly list: List<RowRange, EndpointRow, EndpointPage> };
  /** Groups of jobs that share the slots, longest wait first. */
  readonly groups: { readonly list: List<RowRange, GroupRow, GroupPage> };
  /** Limits on the requests to a server. A budget is named `HOST` or `ACCOUNT@HOST`. */
  readonly budgets: {
    readonly list: List<Readonly<Record<string, never>>, BudgetRow, BudgetPage>;
    put(name: string, budget: Partial<Budget>, options?: Signaled): Promise<Done>;
    remove(name: string, options?: Signaled): Promise<Done>;
  };
  readonly alerts: {
    /** Returns the state of the delivery. */
    get(options?: Signaled): Promise<AlertDelivery>;
    /** Sends a test alert. Rejects if the receiver does not accept it. */
    test(options?: Signaled): Promise<Done>;
  };
  /**
   * Yields events of jobs. After a lost connection, resumes after the last event received. Ends
   * when the signal aborts.
   */
  events(
    filter?: EventFilter,
    options?: Signaled & {
      /** `place` of the last event received. Default: only new events. */
      readonly since?: string | undefined;
    },
  ): AsyncIterable<ClientEvent>;
  /** Lists past events, newest first. */
  readonly pastEvents: List<PastQuery, JobEvent, PastPage>;
}

/** Status of a response that is sent before the work has ended. */
const ACCEPTED = 202;

/** Creates a client. Methods reject with an ApiError. */
export function createClient({ url, fetch = globalThis.fetch, headers = {}, auth }: ClientOptions) {
  const root = String(url).replace(/\/*$/, "/");
  const authorization = auth && { authorization: `Basic ${base64(auth)}` };
  const requests = new Requests({
    root: () => root,
    fetch: (...asked) => fetch(...asked),
    headers: { ...authorization, ...headers },
  });
  return clientOf(requests);
}

/** Creates a client that sends its requests through `requests`. */
export function clientOf(requests: Requests): Client {
  const job = (name: string): string => `_tandem/jobs/${segmentOf(name)}`;
  const rule = (name: string): string => `_tandem/rules/${segmentOf(name)}`;
  const node = (name: string): string => `_tandem/nodes/${segmentOf(name)}`;
  const command = (id: string): string => `_tandem/commands/${segmentOf(id)}`;
  const budget = (name: string): string => `_tandem/budgets/${segmentOf(name)}`;
  const policy = (database: string): string => `${conflictsPath(database)}/policy`;
  const dryRun = { dry_run: true };
  const list =
    <Row, Page extends Paged>(path: string, rows: keyof Page) =>
    (query: QueryParameters = {}, { signal }: Signaled = {}) =>
      listing<Row, Page>(requests, path, rows, query, signal);
  return {
    jobs: {
      list: list("_tandem/jobs", "jobs"),
      count: (filter = {}, options = {}) => countJobs(requests, filter, options),
      get: (name, { signal } = {}) => requests.ask("GET", job(name), { signal }),
      runs: (name, query = {}, { signal } = {}) =>
        listing(requests, `${job(name)}/runs`, "runs", query, signal),
      failures: (name, query = {}, { signal } = {}) =>
        listing(requests, `${job(name)}/failures`, "failures", query, signal),
      async retryFailures(name, ids, { signal } = {}) {
        const body = ids === undefined ? {} : { ids };
        const path = `${job(name)}/failures/_retry`;
        const { status, text } = await requests.exchange("POST", path, { body, signal });
        return { ...(parseJson(text) as RetriedFailures), isDone: status !== ACCEPTED };
      },
      failing: list("_tandem/failing", "groups"),
      topology: (filter = {}, { signal } = {}) =>
        requests.ask("GET", "_tandem/topology", { query: filter, signal }),
      logins: list("_tandem/logins", "logins"),
      command: (action, name, { signal, why } = {}) =>
        requests.ask("POST", `${job(name)}/_${action}`, { body: { why }, signal }),
      startFrom: (name, since, { signal, why } = {}) =>
        requests.ask("POST", `${job(name)}/_start_from`, { body: { since, why }, signal }),
      commandAll(action, filter, options = {}) {
        const query = filter === "all" ? { all: true } : filter;
        return runningCommand(requests, `_tandem/jobs/_${action}`, query, options);
      },
    },
    commands: {
      get: (id, { signal } = {}) => requests.ask("GET", command(id), { signal }),
      follow: (id, { signal } = {}) => followCommand(requests, id, signal),
      cancel: (id, { signal } = {}) => requests.ask("DELETE", command(id), { signal }),
      undo: (id, options = {}) => runningCommand(requests, `${command(id)}/_undo`, {}, options),
    },
    conflicts: {
      databases: list("_tandem/conflicts", "databases"),
      list: (database, query = {}, { signal } = {}) =>
        listing(requests, conflictsPath(database), "conflicts", query, signal),
      policy: (database, { signal } = {}) => requests.ask("GET", policy(database), { signal }),
      setPolicy: (database, body, { signal } = {}) =>
        requests.ask("PUT", policy(database), { body, signal }),
      removePolicy: (database, { signal } = {}) =>
        requests.ask("DELETE", policy(database), { signal }),
      resolutions: (database, query = {}, { signal } = {}) =>
        listing(requests, `${conflictsPath(database)}/resolutions`, "resolutions", query, signal),
      undo: (database, selection = {}, { signal } = {}) =>
        undoResolutions(requests, database, selection, signal),
    },
    rules: {
      list: list("_tandem/rules", "rules"),
      get: (name, { signal } = {}) => requests.ask("GET", rule(name), { signal }),
      put: (name, body, { signal } = {}) => requests.ask("PUT", rule(name), { body, signal }),
      plan: (name, body, { signal } = {}) =>
        requests.ask("PUT", rule(name), { query: dryRun, body, signal }),
      remove: (name, { signal } = {}) => requests.ask("DELETE", rule(name), { signal }),
      planRemoval: (name, { signal } = {}) =>
        requests.ask("DELETE", rule(name), { query: dryRun, signal }),
    },
    nodes: {
      list: list("_tandem/nodes", "nodes"),
      drain: (name, { signal } = {}) => requests.ask("POST", `${node(name)}/_drain`, { signal }),
      undrain: (name, { signal } = {}) =>
        requests.ask("POST", `${node(name)}/_undrain`, { signal }),
    },
    endpoints: { list: list("_tandem/endpoints", "endpoints") },
    groups: { list: list("_tandem/groups", "groups") },
    budgets: {
      list: list("_tandem/budgets", "budgets"),
      put: (name, body, { signal } = {}) => requests.ask("PUT", budget(name), { body, signal }),
      remove: (name, { signal } = {}) => requests.ask("DELETE", budget(name), { signal }),
    },
    alerts: {
      get: ({ signal } = {}) => requests.ask("GET", "_tandem/alerts", { signal }),
      test: ({ signal } = {}) => requests.ask("POST", "_tandem/alerts/_test", { signal }),
    },
    async *events(query = {}, { signal = new AbortController().signal, since } = {}) {
      // Aborts the request when the consumer leaves the loop.
      const over = new AbortController();
      const ended = AbortSignal.any([signal, over.signal]);
      const feed = { query, since, signal: ended };
      try {
        for await (const item of followFeed(requests, "_tandem/events", feed)) {
          if (item.kind !== "message") {
            yield item;
            continue;
          }
          const { event, data, id: place = "" } = item.message;
          if (event === "gap") yield { kind: "gap", place };
          if (event === "job") yield { kind: "job", ...(parseJson(data) as JobEvent), place };
        }
      } finally {
        over.abort();
      }
    },
    pastEvents: list("_tandem/events/_past", "events"),
  };
}

/** Members of a page that locate the next page. */
interface Paged {
  readonly total_rows?: number | null;
  readonly bookmark?: string | null;
  readonly before?: string | null;
}

function listing<Row, Page extends Paged>(
  requests: Requests,
  path: string,
  rows: keyof Page,
  query: QueryParameters,
  signal: AbortSignal | undefined,
): Listing<Row, Page> {
  const page = (place: QueryParameters = {}): Promise<Page> =>
    requests.ask("GET", path, { query: { ...query, ...place }, signal });
  return {
    page: () => page(),
    async *[Symbol.asyncIterator]() {
      let skip = Number(query.skip ?? 0);
      for (let place: QueryParameters | undefined = {}; place !== undefined; ) {
        const found: Page = await page(place);
        const read = found[rows] as readonly Row[] | undefined;
        if (!Array.isArray(read)) throw unexpected(200, `an array \`${String(rows)}\``);
        yield* read;
        skip += read.length;
        place = nextPlace(found, read.length === 0 ? Number.POSITIVE_INFINITY : skip);
      }
    },
  };
}

/** Query of the next page; `undefined` after the last one. `skip` is the number of rows read. */
function nextPlace({ bookmark, before, total_rows: total }: Paged, skip: number) {
  if (bookmark !== undefined) return bookmark === null ? undefined : { bookmark };
  if (before !== undefined) return before === null ? undefined : { before };
  return skip < (total ?? 0) ? { skip } : undefined;
}

function runningCommand(
  requests: Requests,
  path: string,
  query: QueryParameters,
  { signal, why }: Reasoned,
): RunningCommand {
  const progress = new LatestValues<BulkCommand>();
  const ended = (async (): Promise<CommandResult> => {
    const { text, location } = await requests.exchange("POST", path, {
      query,
      body: { why },
      signal,
    });
    const answer = parseJson(text) as CommandedJobs;
    const id = continuedCommand(answer) ?? (location.split("/").at(-1) || undefined);
    let { matched, changed = 0 } = answer;
    let failed = 0;
    // Unless all jobs were changed, the number of failed jobs is needed. Only the stored command
    // has it.
    if (id !== undefined && answer.changed !== matched) {
      for await (const command of followCommand(requests, id, signal)) {
        progress.set(command);
        ({ matched, changed, failed } = command);
      }
    }
    return { id, matched, changed, failed };
  })();
  ended.then(
    () => progress.end(),
    (error: unknown) => progress.end({ error }),
  );
  // A promise that has no handlers yet. If the caller ignores a failure, the runtime therefore
  // reports an unhandled rejection.
  const shown = ended.then((value) => value);
  return Object.assign(shown, {
    [Symbol.asyncIterator]: () => {
      shown.catch(() => {});
      return progress.values();
    },
  });
}

/** Encodes credentials in UTF-8 and then base64, as servers expect. */
function base64({ username, password }: { username: string; password: string }): string {
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return btoa(String.fromCharCode(...bytes));
}
