/** Filter functions that run when they are called: the sandbox of a server is a thread, which takes real time. */
import { runInNewContext } from "node:vm";
import { concatBytes, utf8Decode } from "../../../src/base/index.ts";
import type { Sandbox, SandboxCall } from "../../../src/databases/index.ts";

export const SYNCHRONOUS_SANDBOX = { call: runFilter } as unknown as Sandbox;

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
