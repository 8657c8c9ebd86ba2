/**
 * Speed of a replication between two servers that are both far away from the replicating node.
 *
 *   npm run build && node bench/replication/far-away.mjs [DOCUMENTS [BYTES [KIBIBYTES]]]
 *
 * DOCUMENTS (20,000) have BYTES (500) each, and an attachment of KIBIBYTES (0: none). A node copies
 * them from a second one to a third, each behind a proxy that delays data by half of a round trip
 * of 0, 100 and 300 ms. The proxy opens one connection to the server for each one that it accepts.
 * Packets are never lost, and the bandwidth is that of this machine. Each copy goes into a new
 * database, ROUNDS times (3), alternately. Prints the seconds, the CPU seconds and the maximum
 * memory of the replicating node, and then the ratios of the medians to those without a delay.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { portOf } from "../support/port-of.mjs";
import { call, MEBIBYTE, measureUse, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const DOCUMENTS = Number(process.argv[2] ?? 20_000);
const BYTES = Number(process.argv[3] ?? 500);
const ATTACHMENT_BYTES = Number(process.argv[4] ?? 0) * 1024;
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const ROUND_TRIPS_MS = [0, 100, 300];
const BATCH_BYTES = 2 * MEBIBYTE;
/** Maximum amount of data in flight in one direction of a connection. */
const UNDER_WAY_BYTES_MAX = 16 * MEBIBYTE;

await withNodes(["between", "source", "target"], async (between, source, target) => {
  await load(source);
  const seconds = new Map(ROUND_TRIPS_MS.map((roundTripMs) => [roundTripMs, []]));
  for (let round = 1; round <= ROUNDS; round++) {
    for (const roundTripMs of ROUND_TRIPS_MS) {
      const from = await openWay(source.url, roundTripMs);
      const to = await openWay(target.url, roundTripMs);
      const body = {
        source: `${from.url}/films`,
        target: `${to.url}/copy-${round}-${roundTripMs}`,
        create_target: true,
      };
      const use = await measureUse([between.pid], () => replicate(between, body));
      await Promise.all([from.close(), to.close()]);
      seconds.get(roundTripMs).push(use.seconds);
      print(roundTripMs, use);
    }
  }
  const near = median(seconds.get(0));
  for (const [roundTripMs, measured] of seconds) {
    const ratio = near / median(measured);
    process.stdout.write(`${roundTripMs} ms away: ${ratio.toFixed(2)} times the speed of 0 ms\n`);
    if (roundTripMs === 0) continue;
    report({
      what: `${DOCUMENTS} × ${BYTES} B, both ends ${roundTripMs} ms away`,
      measured: `${Math.round(DOCUMENTS / median(measured))} documents/s`,
      beside: `0 ms away ${Math.round(DOCUMENTS / near)}`,
      ratio,
      aim: "0.8",
    });
  }
});

async function load(server) {
  await call(server, "PUT", "/films");
  const rows = Math.max(1, Math.floor(BATCH_BYTES / (BYTES + ATTACHMENT_BYTES * 1.4)));
  for (let start = 0; start < DOCUMENTS; start += rows) {
    const docs = Array.from({ length: Math.min(rows, DOCUMENTS - start) }, (_, at) => ({
      _id: `film-${start + at}`,
      plot: "x".repeat(BYTES),
      ...(ATTACHMENT_BYTES > 0 && { _attachments: { poster: poster() } }),
    }));
    await call(server, "POST", "/films/_bulk_docs", JSON.stringify({ docs }));
  }
}

function poster() {
  const data = randomBytes(ATTACHMENT_BYTES).toString("base64");
  return { content_type: "image/jpeg", data };
}

async function replicate(server, body) {
  const { history } = await call(server, "POST", "/_replicate", JSON.stringify(body));
  if (history[0].docs_written !== DOCUMENTS) throw new Error(JSON.stringify(history[0]));
}

/**
 * Opens a proxy that forwards to a server and delays data by half a round trip in each direction.
 */
async function openWay(url, roundTripMs) {
  const { port } = new URL(url);
  const sockets = new Set();
  const server = createServer((near) => {
    const far = connect(Number(port), "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    }
    pass(near, far, roundTripMs / 2);
    pass(far, near, roundTripMs / 2);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** Forwards data after `delayMs`, in order. */
function pass(from, to, delayMs) {
  let underWayBytes = 0;
  from.on("data", (bytes) => {
    underWayBytes += bytes.length;
    if (underWayBytes > UNDER_WAY_BYTES_MAX) from.pause();
    setTimeout(() => {
      to.write(bytes);
      underWayBytes -= bytes.length;
      if (underWayBytes <= UNDER_WAY_BYTES_MAX) from.resume();
    }, delayMs);
  });
  from.on("end", () => setTimeout(() => to.end(), delayMs));
  from.on("close", () => setTimeout(() => to.destroy(), delayMs));
}

function print(roundTripMs, { seconds, cpuSeconds, peakBytes }) {
  process.stdout.write(
    `${`${roundTripMs} ms`.padEnd(8)} ${seconds.toFixed(2)} s  ${Math.round(DOCUMENTS / seconds)} documents/s  ` +
      `${cpuSeconds.toFixed(2)} s CPU  ${Math.round(peakBytes / MEBIBYTE)} MiB\n`,
  );
}
