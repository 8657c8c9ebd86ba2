/**
 * The dashboard in Chromium, from a node with many jobs.
 *
 *   npm run build && node bench/dashboard/first-page.mjs [JOBS]
 *
 * A store of LMDB in a temporary folder has JOBS (100,000) jobs: three fail, a hundred are behind, and none runs. The overview and the
 * list of jobs are opened ROUNDS (5) times each by a browser that has nothing of them, and once more by each of these browsers. Printed
 * are the medians: milliseconds from the begin of the navigation until the page can be used (the tiles, or the first rows, are drawn);
 * milliseconds of work of the page's thread; and kilobytes that came over the wire. Then a list is scrolled to its end: seconds, and
 * the live heap of the page. `CHROMIUM_PATH` names another browser than the one of the package `@sparticuz/chromium`.
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

/** Each page, and the condition under which it can be used. */
const PAGES = [
  ["overview", "/_dashboard/", `document.querySelector(".tile-bad .tile-value") !== null`],
  ["jobs", "/_dashboard/#/jobs", `document.querySelectorAll("tbody .job-link").length > 10`],
];

/** When it is so, in milliseconds from the begin of the navigation. */
const onceDrawn = (condition) => `new Promise((resolve) => {
  const look = () => {
    if (${condition}) resolve(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})`;

/** Drawing goes on until the row with this place is drawn. */
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

/** A page of its own browser context, and what is measured of it. */
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
      `${(opened.takeBytes() / 1e6).toFixed(1)} MB came, ${(usedSize / 1e6).toFixed(1)} MB of heap`,
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
    // The sandbox of Chromium wants a user namespace, which containers seldom have.
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
