/** The API client of the package, typed from the contract. */
import { LatestValues, parseJson } from "../base/index.ts";
import type {
  BulkCommand,
  CommandedJobs,
  DocumentFailure,
  EVENT_FILTERS,
  FailingPage,
  FailurePage,
  JOB_FILTERS,
  Job,
  JobEvent,
  JobPage,
  JobRun,
  NodePage,
  NodeRow,
  QUERIES,
  QueryValues,
  Rule,
  RulePlan,
  RulesPage,
} from "../contract/index.ts";
import { continuedCommand, countJobs, followCommand, type JobCount } from "./commands.ts";
import { followFeed } from "./feed.ts";
import { type Fetch, type QueryParameters, Requests, segmentOf } from "./requests.ts";

type Given<Values> = { readonly [Name in keyof Values]?: Values[Name] };

/** Filters of jobs. A job is selected if it matches all of them. */
export type JobFilter = Given<QueryValues<typeof JOB_FILTERS>>;
export type JobListQuery = Given<
  Omit<QueryValues<(typeof QUERIES)["GET /_tandem/jobs"]>, "bookmark" | "skip">
>;
export type EventFilter = JobFilter & Given<QueryValues<typeof EVENT_FILTERS>>;

/** An action on jobs; the reason is stored with each. */
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
  readonly signal?: AbortSignal;
}

/** A command for several jobs: a promise of its end, and an async iterable of its progress. */
export interface RunningCommand extends Promise<CommandResult>, AsyncIterable<BulkCommand> {}

export interface CommandResult {
  /** Id for `commands.undo`; undefined if the server has kept none. */
  readonly id: string | undefined;
  readonly matched: number;
  readonly changed: number;
}

/** An event of a job, or a gap: events were lost, so that lists read before are out of date. */
export type ClientEvent =
  | ({ readonly kind: "job" } & JobEvent)
  | { readonly kind: "gap"; readonly place: string };

export interface Client {
  readonly jobs: {
    /** Yields all jobs that match, page by page. */
    list(query?: JobListQuery, options?: Signaled): AsyncIterable<Job>;
    /** Counts the jobs that match. */
    count(filter?: JobFilter, options?: Signaled): Promise<JobCount>;
    get(name: string, options?: Signaled): Promise<Job>;
    runs(name: string, options?: Signaled): Promise<readonly JobRun[]>;
    /** Yields the documents that were not copied. */
    failures(name: string, options?: Signaled): AsyncIterable<DocumentFailure>;
    /** Groups failing jobs by cause. */
    failing(options?: Signaled): Promise<FailingPage>;
    /** Applies an action to one job. */
    command(action: JobAction, name: string, options?: Signaled & { why?: string }): Promise<void>;
    /** Applies an action to the jobs that match. The server rejects an empty filter. */
    commandAll(
      action: JobAction | "retry_failures",
      filter: JobFilter | "all",
      options?: Signaled & { why?: string },
    ): RunningCommand;
  };
  readonly commands: {
    get(id: string, options?: Signaled): Promise<BulkCommand>;
    cancel(id: string, options?: Signaled): Promise<void>;
    undo(id: string, options?: Signaled): RunningCommand;
  };
  readonly rules: {
    list(options?: Signaled & { failing?: boolean }): AsyncIterable<Rule>;
    get(name: string, options?: Signaled): Promise<Rule>;
    put(name: string, rule: Readonly<Record<string, unknown>>, options?: Signaled): Promise<void>;
    /** Returns the effects of a rule without storing it. */
    plan(
      name: string,
      rule: Readonly<Record<string, unknown>>,
      options?: Signaled,
    ): Promise<RulePlan>;
    remove(name: string, options?: Signaled): Promise<void>;
  };
  readonly nodes: {
    list(options?: Signaled): Promise<readonly NodeRow[]>;
    drain(name: string, options?: Signaled): Promise<void>;
    undrain(name: string, options?: Signaled): Promise<void>;
  };
  /**
   * Yields events of jobs, and continues after lost connections with the event after the last one.
   * Ends when the signal aborts.
   */
  events(
    filter?: EventFilter,
    options?: Signaled & {
      /** `place` of the last event received. Default: only new events. */
      readonly since?: string;
    },
  ): AsyncIterable<ClientEvent>;
}

/** Rows per page of the list of failures. */
const FAILURE_ROWS = 1_000;

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

function clientOf(requests: Requests): Client {
  const job = (name: string): string => `_tandem/jobs/${segmentOf(name)}`;
  const rule = (name: string): string => `_tandem/rules/${segmentOf(name)}`;
  const change = async (...asked: Parameters<Requests["exchange"]>): Promise<void> => {
    await requests.exchange(...asked);
  };
  const running = (path: string, query: QueryParameters, given: Signaled & { why?: string }) =>
    runningCommand(requests, path, query, given);
  return {
    jobs: {
      list: (query = {}, { signal } = {}) =>
        pages<Job, JobPage>(requests, "_tandem/jobs", query, signal, ({ jobs }) => jobs),
      async count(filter = {}, { signal } = {}) {
        const { count, isExact } = await countJobs(requests, filter, { signal });
        return { count, isExact };
      },
      get: (name, { signal } = {}) => requests.ask("GET", job(name), { signal }),
      async runs(name, { signal } = {}) {
        const path = `${job(name)}/runs`;
        return (await requests.ask<{ runs: readonly JobRun[] }>("GET", path, { signal })).runs;
      },
      async *failures(name, { signal } = {}) {
        for (let skip = 0; ; skip += FAILURE_ROWS) {
          const query = { skip, limit: FAILURE_ROWS };
          const path = `${job(name)}/failures`;
          const { failures } = await requests.ask<FailurePage>("GET", path, { query, signal });
          yield* failures;
          if (failures.length < FAILURE_ROWS) return;
        }
      },
      failing: ({ signal } = {}) => requests.ask("GET", "_tandem/failing", { signal }),
      command: (action, name, { signal, why } = {}) =>
        change("POST", `${job(name)}/_${action}`, { body: { why: why ?? null }, signal }),
      commandAll(action, filter, options = {}) {
        const query = filter === "all" ? { all: true } : filter;
        return running(`_tandem/jobs/_${action}`, query, options);
      },
    },
    commands: {
      get: (id, { signal } = {}) =>
        requests.ask("GET", `_tandem/commands/${segmentOf(id)}`, { signal }),
      cancel: (id, { signal } = {}) =>
        change("DELETE", `_tandem/commands/${segmentOf(id)}`, { signal }),
      undo: (id, options = {}) => running(`_tandem/commands/${segmentOf(id)}/_undo`, {}, options),
    },
    rules: {
      list: ({ signal, failing } = {}) =>
        pages<Rule, RulesPage>(
          requests,
          "_tandem/rules",
          { failing },
          signal,
          (page) => page.rules,
        ),
      get: (name, { signal } = {}) => requests.ask("GET", rule(name), { signal }),
      put: (name, body, { signal } = {}) => change("PUT", rule(name), { body, signal }),
      plan: (name, body, { signal } = {}) =>
        requests.ask("PUT", rule(name), { query: { dry_run: true }, body, signal }),
      remove: (name, { signal } = {}) => change("DELETE", rule(name), { signal }),
    },
    nodes: {
      list: async ({ signal } = {}) =>
        (await requests.ask<NodePage>("GET", "_tandem/nodes", { signal })).nodes,
      drain: (name, { signal } = {}) =>
        change("POST", `_tandem/nodes/${segmentOf(name)}/_drain`, { signal }),
      undrain: (name, { signal } = {}) =>
        change("POST", `_tandem/nodes/${segmentOf(name)}/_undrain`, { signal }),
    },
    async *events(query = {}, { signal = new AbortController().signal, since } = {}) {
      // A consumer that leaves the loop ends the request.
      const over = new AbortController();
      const ended = AbortSignal.any([signal, over.signal]);
      try {
        for await (const item of followFeed(requests, "_tandem/events", {
          query,
          since,
          signal: ended,
        })) {
          if (item.kind !== "message") continue;
          const { event, data, id: place = "" } = item.message;
          if (event === "gap") yield { kind: "gap", place };
          if (event === "job") yield { kind: "job", ...(parseJson(data) as JobEvent), place };
        }
      } finally {
        over.abort();
      }
    },
  };
}

async function* pages<Row, Page extends { readonly bookmark: string | null }>(
  requests: Requests,
  path: string,
  query: QueryParameters,
  signal: AbortSignal | undefined,
  rowsOf: (page: Page) => readonly Row[],
): AsyncGenerator<Row, void, undefined> {
  for (let bookmark: string | undefined; ; ) {
    const page: Page = await requests.ask("GET", path, { query: { ...query, bookmark }, signal });
    yield* rowsOf(page);
    if (page.bookmark === null) return;
    bookmark = page.bookmark;
  }
}

function runningCommand(
  requests: Requests,
  path: string,
  query: QueryParameters,
  { signal, why }: Signaled & { why?: string },
): RunningCommand {
  const progress = new LatestValues<BulkCommand>();
  const ended = (async (): Promise<CommandResult> => {
    const body = { why: why ?? null };
    const { text, location } = await requests.exchange("POST", path, { query, body, signal });
    const answer = parseJson(text) as CommandedJobs;
    const id = continuedCommand(answer);
    let { matched, changed = 0 } = answer;
    if (id !== undefined) {
      for await (const command of followCommand(requests, id, signal)) {
        progress.set(command);
        ({ matched, changed } = command);
      }
    }
    return { id: id ?? (location.split("/").at(-1) || undefined), matched, changed };
  })();
  ended.then(
    () => progress.end(),
    (error: unknown) => progress.end({ error }),
  );
  // A separate promise, so that a caller who ignores a failure hears of it.
  const shown = ended.then((value) => value);
  return Object.assign(shown, {
    [Symbol.asyncIterator]: () => {
      shown.catch(() => {});
      return progress.values();
    },
  });
}

/** UTF-8 before base64, as servers expect. */
function base64({ username, password }: { username: string; password: string }): string {
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return btoa(String.fromCharCode(...bytes));
}
