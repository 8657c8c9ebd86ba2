import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { get, openClock, openServer } from "../fetch.fixture.ts";
import { withLinger } from "./with-linger.ts";

const OPTIONS = { isWrite: () => true, lingerMs: () => Number.POSITIVE_INFINITY };

async function sendMany(
  end: (response: Awaited<ReturnType<ReturnType<typeof withLinger>>>) => unknown,
) {
  const run = new AbortController();
  const { fetch } = openServer(() => ({ status: 201, body: "{}" }));
  const lingering = withLinger(openClock(), fetch, OPTIONS);
  for (let number = 0; number < 20; number++) {
    await end(await lingering({ ...get("http://host/db/doc"), method: "PUT", signal: run.signal }));
  }
  return getEventListeners(run.signal, "abort").length;
}

test("leaves no listener on the signal of a run after a response was read", async () => {
  const left = await sendMany(async ({ body }) => {
    for await (const _ of body) {
      // Reads the body to its end.
    }
  });
  expect(left).toBe(0);
});

test("leaves no listener on the signal of a run after a response was discarded", async () => {
  expect(await sendMany((response) => response.discard())).toBe(0);
});

test.each([
  ["sent from memory", "{}", false],
  ["streamed to its end", streamOf(["{", "}"]), false],
  ["still being streamed", streamOf(["{"], new Promise(() => {})), true],
] as const)(
  "a stopping run aborts only a write whose body is still being streamed: %s",
  async (_, body, endsAtOnce) => {
    const run = new AbortController();
    let answer = (): void => {};
    const lingering = withLinger(
      openClock(),
      async ({ body: sent, signal }) => {
        const ended = new Promise<never>((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason)),
        );
        const asked = new Promise<void>((resolve) => {
          answer = resolve;
        });
        setImmediate(() => run.abort(new Error("stopped")));
        if (typeof sent === "object" && "stream" in sent) {
          const read = async () => {
            for await (const _chunk of sent.stream()) {
              // Reading a chunk stands for sending it to the server.
            }
          };
          await Promise.race([read(), ended]);
        }
        await Promise.race([asked, ended]);
        return { status: 201, headers: new Map(), body: streamOf([]).stream(), discard: () => {} };
      },
      OPTIONS,
    );
    const writing = lingering({
      ...get("http://host/db/doc"),
      method: "PUT",
      body,
      signal: run.signal,
    });
    const outcome = writing.then(
      ({ status }) => status,
      (error: Error) => error.message,
    );
    run.signal.addEventListener("abort", () => setImmediate(answer));
    expect(await outcome).toBe(endsAtOnce ? "stopped" : 201);
  },
);

function streamOf(chunks: readonly string[], last: Promise<void> = Promise.resolve()) {
  return {
    length: 2,
    async *stream() {
      for (const chunk of chunks) yield new TextEncoder().encode(chunk);
      await last;
    },
  };
}
