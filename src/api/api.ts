/**
 * The API as a whole: routes, authentication, authorization, and the handler that turns every error
 * into a response.
 */

import { errorCode, type Runtime, randomHex, Yielder } from "../base/index.ts";
import { ProtocolError, percentEncode } from "../protocol/index.ts";
import { authorize } from "./access/authorization.ts";
import { refuseForeignPages, refuseForms } from "./access/foreign-pages.ts";
import { ReservedPlaces } from "./access/reserved-places.ts";
import type { ApiParts } from "./api-parts.ts";
import { changesRoutes } from "./changes/changes.ts";
import { databaseUpdatesRoutes } from "./changes/database-updates.ts";
import { timeSequenceRoutes } from "./changes/time-sequences.ts";
import { conflictPolicyRoutes } from "./databases/conflict-policy.ts";
import { conflictRoutes } from "./databases/conflicts.ts";
import { databaseListRoutes } from "./databases/database-lists.ts";
import { databaseRoutes } from "./databases/databases.ts";
import { attachmentRoutes } from "./documents/attachments.ts";
import { bulkDocumentsRoutes } from "./documents/bulk-documents.ts";
import { bulkGetRoutes } from "./documents/bulk-get.ts";
import { documentRoutes } from "./documents/documents.ts";
import { formUploadRoutes } from "./documents/form-uploads.ts";
import { localDocumentRoutes } from "./documents/local-documents.ts";
import { purgeRoutes } from "./documents/purge.ts";
import { revisionsDifferenceRoutes } from "./documents/revisions-difference.ts";
import { Admission, needsPlace } from "./http/admission.ts";
import { BodyBudget } from "./http/body-budget.ts";
import type { BodyRules, Call } from "./http/call.ts";
import { withChallenge } from "./http/challenge.ts";
import { compressed } from "./http/compressed-responses.ts";
import { corsHeaders, preflight } from "./http/cors.ts";
import { errorResponse, isExpected, methodNotAllowed } from "./http/error-responses.ts";
import type { Api, ApiRequest, ApiResponse, User } from "./http/exchange.ts";
import { notImplementedRoutes, unknownPath } from "./http/not-implemented.ts";
import { checkParameters } from "./http/query.ts";
import { BODY_BYTES_MAX } from "./http/request-body.ts";
import type { Headers } from "./http/responses.ts";
import type { RouteFacts } from "./http/route-facts.ts";
import { type Match, type Route, Router, splitPath } from "./http/router.ts";
import { allDocumentsRoutes } from "./queries/all-documents.ts";
import { findRoutes } from "./queries/find.ts";
import { indexRoutes } from "./queries/indexes.ts";
import { type BatchMembers, batchRoutes } from "./server/batch.ts";
import { dashboardRoutes } from "./server/dashboard.ts";
import { openApiRoute } from "./server/openapi.ts";
import { serverInfoRoutes } from "./server/server-info.ts";
import { utilityRoutes } from "./server/utilities.ts";

export function createApi(parts: ApiParts): Api {
  const runtime: Runtime = { ...parts.runtime, random: parts.runtime.random.fork("api") };
  const own: ApiParts = { ...parts, runtime };
  const admission = new Admission(own.settings);
  const members: BatchMembers = {
    answer: (request, user, requestId) =>
      traced(runtime, request, () => answer(dispatching, request, requestId, user)),
    isBatched: (method, segments) => {
      const match = router.match(method, segments);
      return match.kind === "found" && match.route.facts.isBatched && method !== "HEAD";
    },
    batched: () => router.batched,
  };
  const routes: readonly Route[] = [
    ...apiRoutes(own, members),
    openApiRoute(() => routes, parts.server.vendor),
  ];
  const router = new Router(routes);
  const bodyBudget = new BodyBudget(runtime.clock, own.settings);
  const reservedPlaces = new ReservedPlaces();
  const dispatching = { router, admission, bodyBudget, reservedPlaces, parts: own };
  const { name, version } = parts.server.vendor;
  const serverName = `CouchDB/${parts.server.version} (${name} ${version})`;

  return async (incoming) => {
    const request = withForwardedHost(withMeantMethod(incoming), own.settings.forwardedHostHeader);
    const requestId = requestIdOf(request) ?? randomHex(runtime.random).slice(0, 10);
    const permission = preflight(own.cors, request);
    const response = await traced(
      runtime,
      request,
      async () => permission ?? answer(dispatching, request, requestId),
    );
    const headers = {
      "Cache-Control": "must-revalidate",
      Server: serverName,
      "X-Couch-Request-ID": requestId,
      "X-CouchDB-Body-Time": "0",
      ...response.headers,
      ...(permission === undefined ? corsHeaders(own.cors, request, response.headers) : {}),
    };
    const sent = { ...response, headers: sendable(headers) };
    if (!own.settings.compressesResponses) return sent;
    return compressed(runtime.compression, request, sent);
  };
}

/** All resources. If two have the same path and method, the later one wins. */
export function apiRoutes(parts: ApiParts, members: BatchMembers): readonly Route[] {
  return [
    ...notImplementedRoutes(),
    ...serverInfoRoutes(parts),
    ...databaseListRoutes(parts),
    ...databaseRoutes(parts),
    ...conflictRoutes(parts),
    ...conflictPolicyRoutes(parts),
    ...documentRoutes(parts),
    ...formUploadRoutes(parts),
    ...attachmentRoutes(parts),
    ...localDocumentRoutes(parts),
    ...bulkDocumentsRoutes(parts),
    ...bulkGetRoutes(parts),
    ...revisionsDifferenceRoutes(parts),
    ...purgeRoutes(parts),
    ...allDocumentsRoutes(parts),
    ...changesRoutes(parts),
    ...timeSequenceRoutes(parts),
    ...findRoutes(parts),
    ...indexRoutes(parts),
    ...databaseUpdatesRoutes(parts),
    ...batchRoutes(parts, members),
    ...utilityRoutes(parts.utilities),
    ...dashboardRoutes(parts.dashboard),
    ...parts.routes,
  ];
}

/** Traces the response to a request. */
async function traced(
  { clock, trace }: Runtime,
  { method, path }: ApiRequest,
  work: () => Promise<ApiResponse>,
): Promise<ApiResponse> {
  const startMs = clock.monotonicMs();
  const response = await work();
  const { status } = response;
  trace.event("api.answered", { method, path, status, durationMs: clock.monotonicMs() - startMs });
  return response;
}

interface Dispatching {
  readonly router: Router;
  readonly admission: Admission;
  readonly bodyBudget: BodyBudget;
  readonly reservedPlaces: ReservedPlaces;
  readonly parts: ApiParts;
}

/** Answers a request. `sender` is the authenticated user, if already known. */
async function answer(
  dispatching: Dispatching,
  request: ApiRequest,
  requestId: string,
  sender?: User,
): Promise<ApiResponse> {
  const { router, admission, parts } = dispatching;
  try {
    const segments = splitPath(request.path, parts.settings);
    const match = router.match(request.method, segments);
    const work = (): Promise<ApiResponse> =>
      dispatch(dispatching, { request, requestId, sender, segments, match });
    const rule = factsOf(match)?.admission ?? "counted";
    const isCounted = request.isReserved !== true && needsPlace(rule, request.query);
    const response = isCounted ? await admission.answer(request.signal, work) : await work();
    return request.method === "HEAD" ? await withoutBody(response) : response;
  } catch (error) {
    const isDefect = !isExpected(error) && !request.signal.aborted;
    if (isDefect) announce(parts.runtime, request, requestId, error);
    const response = withChallenge(parts.settings, request, errorResponse(error));
    return request.method === "HEAD" ? withoutBody(response) : response;
  }
}

/** A request with its route. */
interface Routed {
  readonly request: ApiRequest;
  readonly requestId: string;
  /** The authenticated user, if already known. */
  readonly sender: User | undefined;
  readonly segments: readonly string[];
  readonly match: Match;
}

async function dispatch(dispatching: Dispatching, routed: Routed): Promise<ApiResponse> {
  const { reservedPlaces, parts } = dispatching;
  const { request, sender } = routed;
  refuseForeignPages(parts.cors, request);
  const user = sender ?? (await parts.authenticate(request));
  const work = () => handle(dispatching, routed, user);
  return request.isReserved === true ? reservedPlaces.answer(request, user, work) : work();
}

async function handle(
  { bodyBudget, parts }: Dispatching,
  { request, requestId, segments, match }: Routed,
  user: User,
): Promise<ApiResponse> {
  // Access is checked before the route affects the response, so that an unauthorized caller cannot
  // probe for paths.
  const access = factsOf(match)?.access;
  await authorize(parts, { method: request.method, segments, access }, user);
  if (match.kind === "wrong-method") return methodNotAllowed(match.allowed);
  if (match.kind === "unknown") throw unknownPath(request.method, segments);
  if (match.route.facts.acceptsForms !== true) refuseForms(request);
  checkParameters(request, match.route.path);
  const allowance = bodyBudget.open();
  const bodies = { ...bodyRules(parts, request), allowance };
  const yielder = new Yielder(parts.runtime.clock);
  const call = { request, requestId, user, parameters: match.parameters, bodies, yielder };
  const work = () => match.route.handle(call).finally(() => allowance.release());
  // The response confirms that jobs were removed, so it waits until their runs have ended.
  const response = await (mayRemoveJobs(parts, call)
    ? parts.haltedRuns.settledAfter(work, request.signal)
    : work());
  if (user.renewedCookie === undefined || "Set-Cookie" in response.headers) return response;
  return { ...response, headers: { "Set-Cookie": user.renewedCookie, ...response.headers } };
}

/** Whether the request could remove jobs: a write, but not to a database without jobs. */
function mayRemoveJobs({ haltedRuns }: ApiParts, { request, parameters }: Call): boolean {
  if (request.method === "GET" || request.method === "HEAD") return false;
  const database = parameters.get("database");
  return database === undefined || haltedRuns.hasJobs(database);
}

/**
 * Returns the limits for the body of a request. Throws a ProtocolError 413 if the Content-Length
 * exceeds the limit.
 */
function bodyRules(
  { runtime, settings }: Pick<ApiParts, "runtime" | "settings">,
  { headers }: ApiRequest,
): Omit<BodyRules, "allowance"> {
  const byteCountMax = settings.requestBytesMax;
  if (Number(headers.get("content-length") ?? 0) > byteCountMax) {
    throw new ProtocolError(413, "too_large", "the request entity is too large");
  }
  return {
    gunzip: (chunks) => runtime.compression.gunzip(chunks),
    byteCountMax: Math.min(byteCountMax, BODY_BYTES_MAX),
  };
}

const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "DELETE", "COPY"];

/**
 * Returns the request with the method named by its override header, for clients limited to GET and
 * POST. The header is ignored unless the request is a POST and the method is one of `METHODS`.
 */
function withMeantMethod(request: ApiRequest): ApiRequest {
  const method = request.headers.get("x-http-method-override");
  if (request.method !== "POST" || method === undefined || !METHODS.includes(method))
    return request;
  return { ...request, method };
}

const FORWARDED_HOST = "x-forwarded-host";

/**
 * Copies the configured header to `X-Forwarded-Host`. If another header is configured, the client's
 * own `X-Forwarded-Host` is ignored.
 */
function withForwardedHost(request: ApiRequest, header: string): ApiRequest {
  const name = header.toLowerCase();
  if (name === FORWARDED_HOST) return request;
  const headers = new Map(request.headers);
  headers.delete(FORWARDED_HOST);
  const host = request.headers.get(name);
  if (host !== undefined) headers.set(FORWARDED_HOST, host);
  return { ...request, headers };
}

/** The request id set by the client or a reverse proxy, if it has CouchDB's format. */
function requestIdOf({ headers }: ApiRequest): string | undefined {
  const id = headers.get("x-couch-request-id");
  return id !== undefined && /^[\w-]{1,36}$/.test(id) ? id : undefined;
}

function factsOf(match: Match): RouteFacts | undefined {
  switch (match.kind) {
    case "found":
      return match.route.facts;
    case "wrong-method":
      return match.facts;
    case "unknown":
      return undefined;
  }
}

/**
 * Escapes characters that are invalid in headers. Header values can contain arbitrary text, for
 * example in content types and replicated revisions.
 */
function sendable(headers: Headers): Headers {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      const text = value.replace(/\p{Surrogate}/gu, "\ufffd");
      return [name, text.replace(/[^\x20-\x7e]/gu, (char) => percentEncode(char))];
    }),
  );
}

/**
 * Logs a bug, or an error code that `ERROR_RESPONSES` lacks. The response contains the request id,
 * by which the log entry can be found.
 */
function announce(
  { trace }: Runtime,
  { method, path }: ApiRequest,
  requestId: string,
  error: unknown,
): void {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const code = errorCode(error);
  trace.event("api.request-failed", { requestId, method, path, code, message, stack });
}

/** The response to HEAD: no body, but its length if known. */
async function withoutBody({ status, headers, body }: ApiResponse): Promise<ApiResponse> {
  if (body === undefined) return { status, headers, body };
  if (typeof body === "string" || body instanceof Uint8Array) {
    const length = typeof body === "string" ? new TextEncoder().encode(body).length : body.length;
    return { status, headers: { ...headers, "Content-Length": String(length) }, body: undefined };
  }
  await body[Symbol.asyncIterator]().return?.();
  return { status, headers, body: undefined };
}
