/** A server that commands ask: `tandem jobs`, `nodes`, `config`, `budgets` and `shares`. */
import { type Command, Option } from "commander";
import { openUndiciFetch } from "../host/index.ts";
import { type FetchRequest, readText } from "../http-client/index.ts";
import { maskCredentials } from "../protocol/index.ts";
import { findCredentials, systemCredentialSources } from "./credentials.ts";
import { reportError, WrongUse } from "./describe-error.ts";

const SERVER_DEFAULT = "http://127.0.0.1:5984";
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

/** Adds the options that each of these commands has. */
export function withServer(command: Command): Command {
  return command
    .addOption(
      new Option("--server <url>", "the server").default(SERVER_DEFAULT).env("TANDEM_SERVER"),
    )
    .option("--json", "print the server's JSON");
}

/** Prints what the server answers. */
export async function askServer(
  { server: url, json }: ServerFlags,
  work: (server: Server) => Promise<readonly [answer: unknown, print: Printer]>,
): Promise<void> {
  const undici = openUndiciFetch();
  try {
    const { origin } = parseServer(url);
    const headers = await headersFor(new URL(url));
    const [answer, print] = await work({
      ask: async (method, path, body) => {
        const response = await undici.fetch({
          method,
          url: origin + path,
          headers,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          inactivityTimeoutMs: SILENCE_MS_MAX,
          signal: new AbortController().signal,
        });
        return answerOf(response.status, await readText(response));
      },
    });
    process.stdout.write(json === true ? `${JSON.stringify(answer)}\n` : print(answer));
  } catch (error) {
    reportError(error);
  } finally {
    await undici.close();
  }
}

/** Of a request for JSON, with the credentials of who asks. */
export async function headersFor(url: URL): Promise<Readonly<Record<string, string>>> {
  const credentials = await findCredentials(url, systemCredentialSources());
  const plain = { accept: "application/json", "content-type": "application/json" };
  if (credentials === undefined) return plain;
  const pair = Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64");
  return { ...plain, authorization: `Basic ${pair}` };
}

/** What the server answered; throws what it says when that is an error. */
export function answerOf(status: number, text: string): unknown {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(`the server answered ${status} without JSON: is it a Tandem?`);
  }
  if (status < 400) return answer;
  const { error, reason } = answer as { readonly error?: unknown; readonly reason?: unknown };
  const hint =
    status === 401 ? " (TANDEM_USER and TANDEM_PASSWORD, or ~/.netrc, say who asks)" : "";
  throw new Error(`${status} ${error}: ${reason}${hint}`);
}

/** Throws a WrongUse for what is no address of a server. */
export function parseServer(url: string): URL {
  if (!URL.canParse(url) || !/^https?:/.test(url)) {
    throw new WrongUse(`--server ${maskCredentials(url)}: expected http://HOST:PORT`);
  }
  return new URL(url);
}
