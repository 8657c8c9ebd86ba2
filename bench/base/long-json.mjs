/**
 * Compares the tools of `base` for long JSON texts with plain code: `npm run build && node
 * --expose-gc bench/base/long-json.mjs`. Each row shows the total time, the longest turn of the
 * event loop, and the memory that the result keeps; medians of five rounds.
 */
import {
  JsonFields,
  outlineJson,
  outlineJsonYielding,
  parseYielding,
  Yielder,
} from "../../dist/base/index.js";
import { createSystemRuntime } from "../../dist/host/system/runtime.js";

const runtime = createSystemRuntime();
const encoder = new TextEncoder();
const ROUNDS = 5;

const list = JSON.stringify(Array.from({ length: 400_000 }, (_, number) => `name ${number}`));
const document = encoder.encode(`{"type":"film","list":${list},"last":{"a":[1,2,3]}}`);
const wide = encoder.encode(
  JSON.stringify(Object.fromEntries(Array.from({ length: 400_000 }, (_, n) => [`m${n}`, 1]))),
);

await compare("parse a list of 400,000 strings", {
  inTurns: () => parseYielding(list, new Yielder(runtime.clock)),
  plain: () => JSON.parse(list),
});
const object = `{"keys":${list}}`;
await compare("parse an object with that list", {
  inTurns: () => parseYielding(object, new Yielder(runtime.clock)),
  plain: () => JSON.parse(object),
});
await compare("find two members of a document of 6 MB", {
  JsonFields: async () => {
    const fields = await JsonFields.open(document, 2, new Yielder(runtime.clock));
    return [await fields.at(["list", "399999"]), await fields.at(["last", "a", "2"])];
  },
  plain: () => {
    const value = JSON.parse(new TextDecoder().decode(document));
    return [value, value.list[399_999], value.last.a[2]];
  },
});
await compare("repeated names among 400,000 members", {
  outline: () =>
    outlineJsonYielding(wide, { depthMax: 1, findsRepeats: true }, new Yielder(runtime.clock)),
  set: () => {
    const outlined = outlineJson(wide, { depthMax: 1 });
    const names = new Set();
    for (const { name } of outlined.eachValue()) names.add(name);
    return [outlined, names];
  },
});

async function compare(title, ways) {
  console.log(title);
  for (const [name, run] of Object.entries(ways)) {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await measured(run));
    const median = (pick) =>
      rounds
        .map(pick)
        .sort((a, b) => a - b)
        [ROUNDS >> 1].toFixed(1);
    const [took, turn, memory] = [(r) => r.tookMs, (r) => r.turnMs, (r) => r.megabytes].map(median);
    console.log(`  ${name.padEnd(16)} ${took} ms, longest turn ${turn} ms, ${memory} MB kept`);
  }
}

async function measured(run) {
  globalThis.gc?.();
  const before = process.memoryUsage();
  let turnMs = 0;
  let last = performance.now();
  const beat = () => {
    const now = performance.now();
    turnMs = Math.max(turnMs, now - last);
    last = now;
  };
  let isOver = false;
  const beats = (async () => {
    while (!isOver) {
      beat();
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  const startMs = performance.now();
  const kept = await run();
  const tookMs = performance.now() - startMs;
  isOver = true;
  await beats;
  beat();
  globalThis.gc?.();
  const after = process.memoryUsage();
  const bytes = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  return { tookMs, turnMs, megabytes: bytes / 1e6, kept };
}
