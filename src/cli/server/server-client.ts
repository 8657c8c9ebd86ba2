/** HTTP client of a single command. */
import { parseJson, printJson } from "../../base/index.ts";
import { openUndiciFetch, type UndiciFetch } from "../../host/index.ts";
import { type FetchRequest, readText } from "../../http-client/index.ts";
import { maskCredentials, percentDecode } from "../../protocol/index.ts";
import { reportError } from "../terminal/describe-error.ts";
import { printableLines } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith, ForeignAnswerError } from "./answers.ts";
import { describeAsker, findCredentials, systemCredentialSources } from "./credentials.ts";

/** Time after which a silent server counts as unresponsive. */
const SILENCE_MS_MAX = 60_000;

export interface ServerFlags {
  readonly server: string;
  readonly json?: boolean;
}

export interface Server {
  /** Returns the response. Throws if it is an error, or if no response arrives. */
  ask(method: FetchRequest["method"], path: string, body?: unknown): Promise<unknown>;
}

/** A server client that also returns the paths of resources created by its requests. */
export interface CreatingServer extends Server {
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
  server: CreatingServer,
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

/** Usage error: the server responded with 400. */
export function reportRefusal(error: unknown): void {
  reportError(error);
  if (error instanceof AnswerError && error.status === 400) process.exitCode = 2;
}

/** Uses the credentials in the URL, or else those from `sources`. */
export async function openServer(
  { fetch }: Pick<UndiciFetch, "fetch">,
  url: URL,
  sources = systemCredentialSources(),
): Promise<CreatingServer> {
  const asker = await askerOf(url, sources);
  const send: (...asked: Parameters<Server["ask"]>) => Promise<Created> = async (
    method,
    path,
    body,
  ) => {
    const response = await fetch({
      method,
      url: url.origin + path,
      headers: asker.headers,
      ...(body === undefined ? {} : { body: printJson(body) }),
      inactivityTimeoutMs: SILENCE_MS_MAX,
      signal: new AbortController().signal,
    });
    const answer = answerOf(response.status, await readText(response), asker);
    return { answer, location: response.headers.get("location") ?? undefined };
  };
  return {
    ask: async (...asked) => (await send(...asked)).answer,
    create: (path, body) => send("POST", path, body),
  };
}

/** Credentials and headers of a command for a server. */
export interface Asker {
  /** Headers of a JSON request, including credentials. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Hint for the error message of a 401: which credentials were sent, and where to specify them.
   */
  readonly described: string;
}

export async function askerOf(url: URL, sources = systemCredentialSources()): Promise<Asker> {
  const credentials = await findCredentials(url, sources);
  const described = describeAsker(url, credentials, sources);
  const plain = { accept: "application/json", "content-type": "application/json" };
  if (credentials === undefined) return { headers: plain, described };
  const pair = Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64");
  return { headers: { ...plain, authorization: `Basic ${pair}` }, described };
}

/** The parsed response. Throws an AnswerError with the server's message if it is an error. */
export function answerOf(status: number, text: string, { described }: Asker): unknown {
  let answer: unknown;
  try {
    answer = parseJson(text);
  } catch {
    throw new Error(`the server responded with ${status} but no JSON; is it a Tandem server?`);
  }
  if (status < 400) return answer;
  const { error, reason } = errorOf(status, answer);
  const hint = status === 401 ? ` (${described})` : "";
  throw new AnswerError(status, `${status} ${error}: ${reason}${hint}`);
}

function errorOf(
  status: number,
  answer: unknown,
): { readonly error: string; readonly reason: unknown } {
  try {
    return answerWith(answer, { error: "string" });
  } catch {
    throw new Error(`the server responded with ${status} but no reason; is it a Tandem server?`);
  }
}

/**
 * Formats the response. A printer can only fail because the response lacks a member, which is
 * reported as such.
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
