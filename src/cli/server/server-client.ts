/** HTTP client of a single command. */
import { parseJson, printJson } from "../../base/index.ts";
import {
  type Client,
  clientOf,
  type Exchanged,
  type Method,
  type RequestParts,
  Requests,
  type RequestsParts,
} from "../../client/index.ts";
import { openUndiciFetch, type UndiciFetch } from "../../host/index.ts";
import { readText } from "../../http-client/index.ts";
import { maskCredentials, percentDecode } from "../../protocol/index.ts";
import { reportError } from "../terminal/describe-error.ts";
import { printableLines } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith, ForeignAnswerError, type Server } from "./answers.ts";
import { describeAsker, findCredentials, systemCredentialSources } from "./credentials.ts";

export type { Server } from "./answers.ts";

/**
 * Time after which a silent server counts as unresponsive: twice the heartbeat interval of a feed.
 */
const SILENCE_MS_MAX = 60_000;

export interface ServerFlags {
  readonly server: string;
  readonly json?: boolean;
}

/** A server with the typed operations of its API. */
export interface TypedServer extends Server, Client {
  create(path: string, body?: unknown): Promise<Created>;
}

export interface Created {
  readonly answer: unknown;
  /** Path of the created resource, if any. */
  readonly location: string | undefined;
}

/** Formats a response. */
export type Printer = (answer: unknown) => string;

/** Sends the requests of a command; returns the last response with its printer. */
export type ServerWork = (
  server: TypedServer,
) => Promise<readonly [answer: unknown, print: Printer]>;

/** Runs the requests of a command, and prints the response or the error. */
export async function workWithServer(
  { server: url, json }: ServerFlags,
  work: ServerWork,
): Promise<void> {
  const undici = openUndiciFetch();
  try {
    const [answer, print] = await work(await openServer(undici, parseServer(url)));
    process.stdout.write(json === true ? `${printJson(answer)}\n` : printed(print, answer));
  } catch (error) {
    reportRefusal(error);
  } finally {
    await undici.close();
  }
}

/** Reports an error. A response with status 400 counts as a usage error. */
export function reportRefusal(error: unknown): void {
  reportError(error);
  if (error instanceof AnswerError && error.status === 400) process.exitCode = 2;
}

/** Opens a server with the credentials in the URL, or else with those from `sources`. */
export async function openServer(
  undici: Pick<UndiciFetch, "fetch">,
  url: URL,
  sources = systemCredentialSources(),
): Promise<TypedServer> {
  const requests = requestsOf(undici, url, await askerOf(url, sources));
  return {
    ...clientOf(requests),
    ask: (method, path, body) => requests.askAny(method, path.slice(1), { body }),
    async create(path, body) {
      const { text, location } = await requests.exchange("POST", path.slice(1), { body });
      return { answer: parseJson(text), location: location || undefined };
    },
  };
}

/**
 * Client whose requests reject with an AnswerError, or with an Error if the server is not Tandem.
 */
class CommandRequests extends Requests {
  readonly #asker: Pick<Asker, "described">;

  constructor(parts: RequestsParts, asker: Pick<Asker, "described">) {
    super(parts);
    this.#asker = asker;
  }

  override async exchange(
    method: Method,
    path: string,
    parts: RequestParts = {},
  ): Promise<Exchanged> {
    const response = await this.send(method, path, parts);
    const { status } = response;
    const text = await response.text();
    checkAnswer(status, text, this.#asker);
    return { status, text, location: response.headers.get("location") ?? "" };
  }
}

/** Creates a `Requests` client that uses the `fetch` and the credentials of a command. */
export function requestsOf(
  { fetch }: Pick<UndiciFetch, "fetch">,
  url: URL,
  asker: Asker,
): Requests {
  const { headers } = asker;
  return new CommandRequests(
    {
      root: () => `${url.origin}/`,
      headers,
      fetch: async (target, { method, ...init }) => {
        const response = await fetch({
          signal: new AbortController().signal,
          ...init,
          method: method as Method,
          url: target,
          inactivityTimeoutMs: SILENCE_MS_MAX,
        });
        const { status, body } = response;
        const headers = { get: (name: string) => response.headers.get(name) ?? null };
        return { status, statusText: "", headers, body, text: () => readText(response) };
      },
    },
    asker,
  );
}

/** Credentials and headers of a command for a server. */
export interface Asker {
  /** Headers with the credentials. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Hint for the error message of a 401: which credentials were sent, and where to specify them.
   */
  readonly described: string;
}

export async function askerOf(url: URL, sources = systemCredentialSources()): Promise<Asker> {
  const credentials = await findCredentials(url, sources);
  const described = describeAsker(url, credentials, sources);
  if (credentials === undefined) return { headers: {}, described };
  const pair = Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64");
  return { headers: { authorization: `Basic ${pair}` }, described };
}

/** Throws an AnswerError with the server's message if the response is an error. */
function checkAnswer(status: number, text: string, asker: Pick<Asker, "described">): void {
  let answer: unknown;
  try {
    answer = parseJson(text);
  } catch {
    throw new Error(`the server responded with ${status} but no JSON; is this a Tandem server?`);
  }
  if (status >= 400) throw refusal({ status, ...errorOf(status, answer) }, asker);
}

/** The error of a response, with a hint for a 401. */
export function refusal(
  { status, error, reason }: { status: number; error: string; reason: unknown },
  { described }: Pick<Asker, "described">,
): AnswerError {
  const hint = status === 401 ? ` (${described})` : "";
  return new AnswerError(status, `${status} ${error}: ${reason}${hint}`);
}

function errorOf(
  status: number,
  answer: unknown,
): { readonly error: string; readonly reason: unknown } {
  try {
    return answerWith(answer, { error: "string" });
  } catch {
    throw new Error(`the server responded with ${status} but no reason; is this a Tandem server?`);
  }
}

/**
 * Formats the response. Throws a ForeignAnswerError if the response lacks a member that `print`
 * reads.
 */
function printed(print: Printer, answer: unknown): string {
  try {
    return printableLines(print(answer));
  } catch (error) {
    if (error instanceof ForeignAnswerError) throw error;
    throw new ForeignAnswerError("the members that the command prints", { cause: error });
  }
}

/** The server responded with an error. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Parses the root URL of a server. Throws a usage error for any other URL. */
export function parseServer(url: string, option = "--server"): URL {
  const named = `${option} ${maskCredentials(url)}`;
  if (!URL.canParse(url) || !/^https?:/i.test(url)) {
    throw new WrongUse(`${named}: expected http://HOST:PORT`);
  }
  const parsed = new URL(url);
  const { pathname, search, hash, username, password } = parsed;
  if (pathname !== "/" || search !== "" || hash !== "") {
    throw new WrongUse(`${named}: expected http://HOST:PORT without a path`);
  }
  if (percentDecode(username) === undefined || percentDecode(password) === undefined) {
    throw new WrongUse(`${named}: write a percent sign in a user or password as %25`);
  }
  return parsed;
}
