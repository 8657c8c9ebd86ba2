/** Asks a server over HTTP, for one command. */
import { parseJson, printJson } from "../../base/index.ts";
import { openUndiciFetch, type UndiciFetch } from "../../host/index.ts";
import { type FetchRequest, readText } from "../../http-client/index.ts";
import { maskCredentials, percentDecode } from "../../protocol/index.ts";
import { reportError } from "../terminal/describe-error.ts";
import { printableLines } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith, ForeignAnswerError } from "./answers.ts";
import { describeAsker, findCredentials, systemCredentialSources } from "./credentials.ts";

/** A server that says nothing for so long does not answer. */
const SILENCE_MS_MAX = 60_000;

export interface ServerFlags {
  readonly server: string;
  readonly json?: boolean;
}

export interface Server {
  /** The server's answer. Throws when it is an error, and when there is none. */
  ask(method: FetchRequest["method"], path: string, body?: unknown): Promise<unknown>;
}

/** Makes text of what a server answered. */
export type Printer = (answer: unknown) => string;

/** What a command asks a server, and how its last answer is printed. */
export type ServerWork = (server: Server) => Promise<readonly [answer: unknown, print: Printer]>;

/** Does the work of a command with its server, and prints the answer or the error. */
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

/** What the server takes for a wrong request (400) is wrong use of the command that made it. */
export function reportRefusal(error: unknown): void {
  reportError(error);
  if (error instanceof AnswerError && error.status === 400) process.exitCode = 2;
}

/** Asks with the credentials of the URL, or else of `sources`. */
export async function openServer(
  { fetch }: Pick<UndiciFetch, "fetch">,
  url: URL,
  sources = systemCredentialSources(),
): Promise<Server> {
  const asker = await askerOf(url, sources);
  return {
    ask: async (method, path, body) => {
      const response = await fetch({
        method,
        url: url.origin + path,
        headers: asker.headers,
        ...(body === undefined ? {} : { body: printJson(body) }),
        inactivityTimeoutMs: SILENCE_MS_MAX,
        signal: new AbortController().signal,
      });
      return answerOf(response.status, await readText(response), asker);
    },
  };
}

/** Who asks a server. */
export interface Asker {
  /** Of a request for JSON, with the credentials of who asks. */
  readonly headers: Readonly<Record<string, string>>;
  /** For the message when the server refuses the credentials, or that there are none. */
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

/** What the server answered; throws an AnswerError with what it says when that is an error. */
export function answerOf(status: number, text: string, { described }: Asker): unknown {
  let answer: unknown;
  try {
    answer = parseJson(text);
  } catch {
    throw new Error(`the server answered ${status} without JSON: is it a Tandem?`);
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
    throw new Error(`the server answered ${status} without saying why: is it a Tandem?`);
  }
}

/** What is printed is made of the answer alone: where that cannot be, it is the answer that lacks something. */
function printed(print: Printer, answer: unknown): string {
  try {
    return printableLines(print(answer));
  } catch (error) {
    if (error instanceof ForeignAnswerError) throw error;
    throw new ForeignAnswerError("what the command prints", { cause: error });
  }
}

/** A server answered with an error. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Throws a WrongUse for what is no address of a server: the API is at its root. */
export function parseServer(url: string, option = "--server"): URL {
  const named = `${option} ${maskCredentials(url)}`;
  if (!URL.canParse(url) || !/^https?:/i.test(url)) {
    throw new WrongUse(`${named}: expected http://HOST:PORT`);
  }
  const parsed = new URL(url);
  const { pathname, search, hash, username, password } = parsed;
  if (pathname !== "/" || search !== "" || hash !== "") {
    throw new WrongUse(`${named}: expected http://HOST:PORT, with nothing behind it`);
  }
  if (percentDecode(username) === undefined || percentDecode(password) === undefined) {
    throw new WrongUse(`${named}: a percent sign in a user or a password is written %25`);
  }
  return parsed;
}
