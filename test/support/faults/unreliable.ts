/**
 * Faults of networks and of busy servers, as a handler for the HTTP proxy. The faults alternate,
 * and a seed determines which requests they affect.
 */
import type { Intercept, ProxiedAnswer } from "./http-proxy.ts";

type Fault = (answer: () => Promise<ProxiedAnswer>) => Promise<ProxiedAnswer>;

/** Ways in which a response is truncated. */
export const CUT_WAYS = ["reset", "end", "stall"] as const;

/** Returns a fault that truncates the response in the middle. */
function cutting(how: (typeof CUT_WAYS)[number]): Fault {
  return async (answer) => {
    const whole = await answer();
    return { ...whole, cut: { afterBytes: Math.floor(whole.body.length / 2), how } };
  };
}

const FAULTS: Readonly<Record<string, Fault>> = {
  "429": async () => ({
    status: 429,
    headers: { "retry-after": "0" },
    body: '{"error":"too_many_requests","reason":"slow down"}',
  }),
  "500": async () => ({ status: 500, body: '{"error":"internal_server_error","reason":"oops"}' }),
  "503 with a page": async () => ({
    status: 503,
    headers: { "content-type": "text/html" },
    body: "<html>Bad day</html>",
  }),
  "reset before the answer": async (answer) => ({
    ...(await answer()),
    cut: { afterBytes: 0, how: "reset" },
  }),
  "reset in the body": cutting("reset"),
  "truncated body": cutting("end"),
  "nothing but headers": async (answer) => ({
    ...(await answer()),
    cut: { afterBytes: 0, how: "end" },
  }),
  "wrong length": async (answer) => ({ ...(await answer()), lengthError: 7 }),
  stall: cutting("stall"),
  "slow drip": async (answer) => ({ ...(await answer()), dripCount: 40 }),
};

export const FAULT_NAMES = Object.keys(FAULTS);

export interface Unreliability {
  readonly intercept: Intercept;
  /** Number of times that each fault has occurred. */
  readonly counts: ReadonlyMap<string, number>;
}

/**
 * Injects a fault into about every second request until `faultCount` is reached. Afterwards, all
 * requests succeed.
 */
export function unreliable(seed: number, faultCount: number): Unreliability {
  const counts = new Map<string, number>();
  let state = seed;
  let faultsLeft = faultCount;
  // A linear congruential generator, so that the same requests get the same faults.
  const draw = (limit: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  return {
    counts,
    intercept: async (request, forward) => {
      if (faultsLeft === 0 || draw(2) === 0) return forward(request);
      const name = FAULT_NAMES[faultsLeft-- % FAULT_NAMES.length] as string;
      counts.set(name, (counts.get(name) ?? 0) + 1);
      return (FAULTS[name] as Fault)(() => forward(request));
    },
  };
}

/**
 * Truncates each multipart response in the middle when it is first requested. The ways of
 * truncation alternate.
 */
export function truncatedMultipart(): Unreliability {
  const counts = new Map<string, number>();
  const struck = new Set<string>();
  return {
    counts,
    intercept: async (request, forward) => {
      const answer = await forward(request);
      const isMultipart = answer.headers?.["content-type"]?.startsWith("multipart/") === true;
      if (!isMultipart || struck.has(request.path)) return answer;
      const how = CUT_WAYS[struck.size % CUT_WAYS.length] as (typeof CUT_WAYS)[number];
      struck.add(request.path);
      counts.set(how, (counts.get(how) ?? 0) + 1);
      return { ...answer, cut: { afterBytes: Math.floor(answer.body.length / 2), how } };
    },
  };
}

/**
 * Adds sessions to a server that has none. A login returns a cookie, every other request needs a
 * cookie, and the first cookie is valid only for a limited number of requests.
 */
export function withSessions(
  inner: Intercept,
  requestCountMax: number,
): { readonly intercept: Intercept; readonly expiredCount: () => number } {
  let loginCount = 0;
  let expiredCount = 0;
  let servedCount = 0;
  const isOpen = (cookie: string | undefined): boolean =>
    (loginCount > 1 || servedCount < requestCountMax) &&
    cookie?.includes(`AuthSession=session-${loginCount}`) === true;
  return {
    expiredCount: () => expiredCount,
    intercept: async (request, forward) => {
      if (request.path === "/_session" && request.method === "POST") {
        const cookie = `AuthSession=session-${++loginCount}; Version=1; Path=/; HttpOnly`;
        return { status: 200, headers: { "set-cookie": cookie }, body: '{"ok":true}' };
      }
      if (!isOpen(request.headers.cookie)) {
        if (request.headers.cookie !== undefined) expiredCount++;
        return { status: 401, body: '{"error":"unauthorized","reason":"Session expired"}' };
      }
      servedCount++;
      return inner(request, forward);
    },
  };
}
