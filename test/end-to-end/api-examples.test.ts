/**
 * Runs the examples of docs/api and of the first steps. The commands of each page run in order on a
 * separate node, and have to get the documented responses.
 */
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { documentationPages, pageText, whyNotRun } from "../support/pages/page-blocks.ts";
import {
  jsonValues,
  type PageExample,
  pageExamples,
  textWithoutVarying,
  withoutVarying,
} from "../support/pages/page-examples.ts";
import { type PageShell, pageShell } from "../support/pages/page-shell.ts";

/** The address and the folder of the node, as written on the pages. */
const ADDRESS = "http://127.0.0.1:5984";
const FOLDER = "/var/lib/tandem";
/** Long time limits, so that a slow machine does not park jobs or expel nodes. */
const INI = "[replicator]\npark_after_sec = 3600\nworker_lease_sec = 3600\n";
/**
 * Maximum number of events during which an example tries to get the documented response. The
 * attempts end earlier if no event occurs for a while.
 */
const EVENT_COUNT_MAX = 50;

const processes = new Processes();
afterAll(() => processes.close());

const pages = [
  "docs/five-minutes.md",
  ...documentationPages().filter((page) => /^docs\/api\/[a-z]/.test(page)),
];

test.each(pages)("the examples of %s get the documented responses", async (page) => {
  const all = pageExamples(pageText(page));
  const examples = all.filter(({ script }) => whyNotRun(page, script) === undefined);
  expect(examples.some(({ answer }) => answer !== undefined)).toBe(true);
  const directory = processes.directory();
  const node = await processes.openHere({ directory, ini: INI });
  const shell = pageShell(directory, node.url);
  for (const example of examples) await check(example, node, shell, directory);
  await node.stop();
});

async function check(
  { script, answer }: PageExample,
  node: TandemNode,
  shell: PageShell,
  directory: string,
): Promise<void> {
  const block = script.replaceAll(ADDRESS, node.url);
  const run = async (): Promise<string> => {
    const output = await shell.run(block, { answers: answer !== undefined });
    return output
      .replaceAll(node.url, ADDRESS)
      .replaceAll(join(directory, "data"), `${FOLDER}/data`);
  };
  if (answer === undefined) {
    expect(await run()).not.toContain('"error":');
    return;
  }
  const comparable = (text: string): unknown =>
    answer.form === "text"
      ? textWithoutVarying(text)
      : jsonValues(text).map((value) => withoutVarying(value));
  const shown = comparable(answer.text);
  // If no request in the block writes, the block is repeated until the job has reached the
  // documented state.
  const isRead = !/ -(X|d|F|T)|--data/.test(script);
  for (let rest = isRead ? EVENT_COUNT_MAX : 0; ; rest--) {
    const { count } = node.events;
    const given = comparable(await run());
    if (isDeepStrictEqual(given, shown)) return;
    if (rest === 0) expect({ script, answer: given }).toEqual({ script, answer: shown });
    await node.events.next(count).catch(() => {
      rest = 1;
    });
  }
}
