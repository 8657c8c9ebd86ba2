/**
 * Alerts of two processes. One process sends them, and the other takes over when the first dies.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../../support/open-process.ts";

const SECRET = "hush-hush";
const processes = new Processes();
afterAll(() => processes.close());

interface Body {
  readonly id: string;
  readonly status: string;
  readonly job: { readonly doc_id: string } | null;
}

test("one of two processes sends each alert once, and the other takes over when the sender is killed", async () => {
  const bodies: Body[] = [];
  let onMessage = (): void => {};
  const receiver = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    bodies.push(JSON.parse(text));
    response.end();
    onMessage();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  processes.onClose(async () => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const about = async (documentId: string, status: string): Promise<void> => {
    const exists = () =>
      bodies.some((body) => body.job?.doc_id === documentId && body.status === status);
    while (!exists()) {
      await new Promise<void>((resolve) => {
        onMessage = resolve;
      });
    }
  };

  const { port } = receiver.address() as AddressInfo;
  const directory = processes.directory();
  const ini = `[alerts]\nurl = http://127.0.0.1:${port}/\nevents = failing\ntimeout_sec = 1\n`;
  const pair = [
    await processes.open({ directory, ini }),
    await processes.open({ directory, ini }),
  ] as const;
  const taking = (node: TandemProcess) => node.events.event("alerts.turn-taken").then(() => node);
  const holder = await Promise.race(pair.map(taking));
  const other = holder === pair[0] ? pair[1] : pair[0];
  await other.call("PUT", "/_node/_local/_config/alerts/secret", JSON.stringify(SECRET));
  expect(readFileSync(join(directory, "data/local.ini"), "utf8")).not.toContain(SECRET);

  await other.call("PUT", "/_replicator/first", {
    source: "nowhere",
    target: "a",
    create_target: true,
  });
  await about("first", "firing");
  // Waits until the delivery is recorded. Otherwise, the other process would send the alert again.
  await holder.events.event("alerts.sent");
  await holder.kill();
  await other.call("PUT", "/_replicator/second", {
    source: "nowhere",
    target: "b",
    create_target: true,
  });
  await about("second", "firing");
  await other.call("PUT", "/nowhere");
  await other.call("POST", "/_tandem/jobs/_replicator%2Ffirst/_retry");
  await about("first", "resolved");
  const first = bodies.filter(({ job }) => job?.doc_id === "first").map(({ status }) => status);
  expect(first).toEqual(["firing", "resolved"]);
  expect(other.log()).not.toContain(SECRET);
  expect(await other.stop()).toBe(0);
});
