/** Follows a feed of server-sent events: `tandem jobs watch`. */
import { setTimeout as pause } from "node:timers/promises";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { openUndiciFetch } from "../../host/index.ts";
import { type Fetch, readText } from "../../http-client/index.ts";
import { describeError } from "../terminal/describe-error.ts";
import { onStopSignal } from "../terminal/stop-signals.ts";
import { printable } from "../terminal/table.ts";
import {
  type Asker,
  answerOf,
  askerOf,
  parseServer,
  reportRefusal,
  type ServerFlags,
} from "./server-client.ts";

/** Maximum silence on a connection: twice the server's heartbeat interval. */
const SILENCE_MS_MAX = 60_000;
const RECONNECT_MS = 1000;

/**
 * Prints the events until the command is interrupted. A lost connection is reopened and resumes
 * after the last event; if the first connection fails, the command ends with the error.
 */
export async function followServer(
  { server }: ServerFlags,
  path: string,
  print: (message: EventSourceMessage) => string,
): Promise<void> {
  const undici = openUndiciFetch();
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  const forgetSignals = onStopSignal(stop);
  const { signal } = stopping;
  let lastId: string | undefined;
  let hasBegun = false;
  const parser = createParser({
    onEvent: (message) => {
      lastId = message.id ?? lastId;
      // The server sends `position` as the first message of each connection.
      if (message.event === "position") {
        hasBegun = true;
        report("watching");
      } else process.stdout.write(print(message));
    },
  });
  try {
    const url = parseServer(server);
    const asker = await askerOf(url);
    while (!signal.aborted) {
      const position = lastId === undefined ? {} : { "last-event-id": lastId };
      const asked = { url: url.origin + path, headers: { ...asker.headers, ...position }, signal };
      try {
        for await (const text of readFeed(undici.fetch, asked, asker)) parser.feed(text);
        if (!hasBegun)
          throw new Error(
            "the server ended the feed before sending anything; is it a Tandem server?",
          );
      } catch (error) {
        if (!hasBegun && !signal.aborted) throw error;
        if (!signal.aborted) report(`${describeError(error)}; reconnecting`);
      }
      parser.reset();
      await pause(RECONNECT_MS, undefined, { signal }).catch(() => {});
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

async function* readFeed(
  fetch: Fetch,
  asked: Pick<Parameters<Fetch>[0], "url" | "headers" | "signal">,
  asker: Asker,
): AsyncGenerator<string, void, undefined> {
  const response = await fetch({ ...asked, method: "GET", inactivityTimeoutMs: SILENCE_MS_MAX });
  if (response.status !== 200) {
    answerOf(response.status, await readText(response), asker);
    throw new Error(`the server responded with ${response.status} instead of a feed`);
  }
  const type = response.headers.get("content-type") ?? "";
  if (!/^text\/event-stream\b/i.test(type)) {
    response.discard();
    throw new Error(
      `the server responded with ${type || "no content type"} instead of a feed; is it a Tandem server?`,
    );
  }
  const decoder = new TextDecoder();
  for await (const piece of response.body) yield decoder.decode(piece, { stream: true });
}
