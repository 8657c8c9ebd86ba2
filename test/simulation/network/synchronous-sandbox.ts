/**
 * Filter functions and selectors that run synchronously. A real server's sandbox is a thread, which
 * takes real time.
 */
import { runInNewContext } from "node:vm";
import { concatBytes, utf8Decode } from "../../../src/base/index.ts";
import type { Sandbox, SandboxCall, SelectorCall } from "../../../src/databases/index.ts";
import { compileSelector } from "../../../src/protocol/index.ts";

export const SYNCHRONOUS_SANDBOX = { call: runFilter, matches } as unknown as Sandbox;

async function matches({ selector, document }: SelectorCall): Promise<boolean> {
  return compileSelector(JSON.parse(selector))(JSON.parse(utf8Decode(concatBytes(document))));
}

async function runFilter({ code, path, runs, shared }: SandboxCall): Promise<boolean[]> {
  let source = JSON.parse(utf8Decode(concatBytes(code)));
  for (const name of path) source = source[name];
  const filter = runInNewContext(`(${source})`);
  return runs.map((run) => Boolean(filter(...argumentsOf(run), ...JSON.parse(shared))));
}

function argumentsOf(run: SandboxCall["runs"][number]): unknown[] {
  if (typeof run === "string") return JSON.parse(run);
  return run.map((argument) => JSON.parse(utf8Decode(concatBytes(argument))));
}
