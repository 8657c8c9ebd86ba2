/**
 * Load time of the dashboard in Chromium, from a node with many jobs.
 *
 *   npm run build && node bench/dashboard/first-page.mjs [JOBS]
 *
 * An LMDB store in a temporary folder has JOBS (100,000) jobs: three fail, a hundred are behind,
 * and none runs. A browser with an empty cache opens the overview and the list of jobs ROUNDS (5)
 * times each, and once more with a warm cache. Prints for each page the medians of the milliseconds
 * until it is usable (its tiles or first rows are drawn), of its thread's CPU time in milliseconds,
 * and of the kilobytes transferred. Then it scrolls a list to its end, and prints the duration in
 * seconds and the page's live heap. `CHROMIUM_PATH` overrides the browser of the package
 * `@sparticuz/chromium`.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { median, print, withDirectory } from "../kv/bench-store.mjs";
import { endProcess, openProcess } from "../load/node-process.mjs";
import { CONFIGURATION, prepareStore } from "../status/prepared-store.mjs";

const COUNT = Number(process.argv[2] ?? 100_000);
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const WAIT_MS = 600_000;
const VIEWPORT = { width: 1280, height: 900 };

/**
 * Pages, each with the script condition that is true once the page is usable.
 * @type {[name: string, path: string, condition: string][]}
 */
const PAGES = [
  ["overview", "/_dashboard/", `document.querySelector(".tile-bad .tile-value") !== null`],
  ["jobs", "/_dashboard/#/jobs", `document.querySelectorAll("tbody .job-link").length > 10`],
];

/**
 * Script that waits for the condition. Resolves with the milliseconds since the navigation began.
 */
const onceDrawn = (condition) => `new Promise((resolve) => {
  const look = () => {
    if (${condition}) resolve(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})`;

/** Script that scrolls down until this row is drawn. Resolves with the elapsed milliseconds. */
const scrollTo = (rowIndex) => `new Promise((resolve) => {
  const begin = performance.now();
  const scroller = document.querySelector(".table-scroller");
  const step = () => {
    scroller.scrollTop = scroller.scrollHeight;
    const isEnd = scroller.querySelector("[aria-rowindex='${rowIndex}']") !== null;
    if (isEnd) resolve(performance.now() - begin);
    else requestAnimationFrame(step);
  };
  step();
})`;

async function executablePath() {
  const named = process.env.CHROMIUM_PATH;
  if (named !== undefined && named !== "") return named;
  const { default: packaged } = await import("@sparticuz/chromium");
  return packaged.executablePath();
}

/** Opens a page in its own browser context, with counters of its bytes and CPU time. */
async function openPage(browser) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  let bytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await session.send("Network.enable");
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const takeBytes = () => {
    const taken = bytes;
    bytes = 0;
    return taken;
  };
  return { context, page, session, takeBytes };
}

async function workMs({ session }) {
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration").value * 1_000;
}

async function load(opened, address, isUsable) {
  await opened.page.goto("about:blank");
  opened.takeBytes();
  const workBefore = await workMs(opened);
  await opened.page.goto(address, { waitUntil: "commit" });
  const usableMs = await opened.page.evaluate(onceDrawn(isUsable));
  return {
    usableMs,
    workMs: (await workMs(opened)) - workBefore,
    kilobytes: opened.takeBytes() / 1_000,
  };
}

function report(name, loads) {
  const figure = (key) => median(loads.map((one) => one[key])).toFixed(0);
  print(
    `${name}: usable after ${figure("usableMs")} ms, ${figure("workMs")} ms of work, ${figure("kilobytes")} kB`,
  );
}

async function measureLoads(browser, url, [name, path, isUsable]) {
  const loads = { first: [], again: [] };
  for (let round = 0; round < ROUNDS; round++) {
    const opened = await openPage(browser);
    for (const which of ["first", "again"]) {
      loads[which].push(await load(opened, url + path, isUsable));
    }
    await opened.context.close();
  }
  report(`${name}, first`, loads.first);
  report(`${name}, again`, loads.again);
}

async function measureEnd(browser, url) {
  const opened = await openPage(browser);
  await load(opened, url + PAGES[1][1], PAGES[1][2]);
  opened.takeBytes();
  const durationMs = await opened.page.evaluate(scrollTo(COUNT + 1));
  await opened.session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await opened.session.send("Runtime.getHeapUsage");
  print(
    `scrolled to the end of ${COUNT} jobs: ${(durationMs / 1_000).toFixed(1)} s, ` +
      `${(opened.takeBytes() / 1e6).toFixed(1)} MB received, ${(usedSize / 1e6).toFixed(1)} MB of heap`,
  );
  await opened.context.close();
}

await withDirectory(async (directory) => {
  await prepareStore(join(directory, "data"), COUNT);
  const configFile = join(directory, "tandem.ini");
  writeFileSync(configFile, CONFIGURATION);
  const node = await openProcess(directory, { flags: ["--config", configFile] });
  const browser = await chromium.launch({
    executablePath: await executablePath(),
    // Chromium's sandbox needs a user namespace, which containers rarely have.
    args: ["--no-sandbox"],
  });
  try {
    print(`${COUNT} jobs`);
    for (const page of PAGES) await measureLoads(browser, node.url, page);
    await measureEnd(browser, node.url);
  } finally {
    await browser.close();
    await endProcess(node);
  }
});
