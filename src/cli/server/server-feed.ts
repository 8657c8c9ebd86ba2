/** Follows a feed of server-sent events: `tandem jobs watch`. */
import { ApiError, type FeedItem, followFeed } from "../../client/index.ts";
import { openUndiciFetch } from "../../host/index.ts";
import { describeError } from "../terminal/describe-error.ts";
import { onStopSignal } from "../terminal/stop-signals.ts";
import { printable } from "../terminal/table.ts";
import {
  askerOf,
  parseServer,
  refusal,
  reportRefusal,
  requestsOf,
  type ServerFlags,
} from "./server-client.ts";

type Message = Extract<FeedItem, { kind: "message" }>["message"];

/**
 * Prints the events until the command is interrupted. A lost connection is reopened and resumes
 * after the last event; if the first connection fails, the command ends with the error.
 */
export async function followServer(
  { server }: ServerFlags,
  path: string,
  print: (message: Message) => string,
): Promise<void> {
  const undici = openUndiciFetch();
  const stopping = new AbortController();
  const forgetSignals = onStopSignal(() => stopping.abort());
  const { signal } = stopping;
  try {
    const url = parseServer(server);
    const asker = await askerOf(url);
    const requests = requestsOf(undici, url, asker);
    try {
      for await (const item of followFeed(requests, path, { signal })) {
        if (item.kind === "open") report("watching");
        else if (item.kind === "lost") report(`${describeError(item.error)}; reconnecting`);
        else process.stdout.write(print(item.message));
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.error !== "not_a_feed") throw refusal(error, asker);
      throw new Error(`${error.reason}; is this a Tandem server?`, { cause: error });
    }
  } catch (error) {
    reportRefusal(error);
  } finally {
    forgetSignals();
    await undici.close();
  }
}

function report(sentence: string): void {
  process.stderr.write(`tandem: ${printable(sentence)}\n`);
}
