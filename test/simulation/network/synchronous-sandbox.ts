/**
 * Functions of design documents, and selectors, that run synchronously. A real server's sandbox
 * is a thread, which takes real time, and virtual time cannot wait for it.
 */
import { runInNewContext } from "node:vm";
import { concatBytes, utf8Decode } from "../../../src/base/index.ts";
import type { Refusal, Sandbox, SandboxCall, SelectorCall } from "../../../src/databases/index.ts";
import { compileSelector } from "../../../src/protocol/index.ts";

export const SYNCHRONOUS_SANDBOX = { call, matches } as unknown as Sandbox;

async function matches({ selector, document }: SelectorCall): Promise<boolean> {
  return compileSelector(JSON.parse(selector))(JSON.parse(utf8Decode(concatBytes(document))));
}

async function call({ kind, code, path, runs, shared }: SandboxCall) {
  if (kind === "resolve") throw new Error("The synchronous sandbox does not resolve conflicts");
  let source = JSON.parse(utf8Decode(concatBytes(code)));
  for (const name of path) source = source[name];
  const run = runInNewContext(`(${source})`);
  const calls = runs.map((texts) => () => run(...argumentsOf(texts), ...JSON.parse(shared)));
  return calls.map((each) => (kind === "validate" ? refusalOf(each) : Boolean(each())));
}

function argumentsOf(run: SandboxCall["runs"][number]): unknown[] {
  if (typeof run === "string") return JSON.parse(run);
  return run.map((argument) => JSON.parse(utf8Decode(concatBytes(argument))));
}

/** Returns the refusal that a validation function throws, of the form `{ forbidden: "reason" }`. */
function refusalOf(validate: () => unknown): Refusal | null {
  try {
    validate();
    return null;
  } catch (thrown) {
    const [refusal] = Object.entries(thrown as Record<string, string>);
    // An error of JavaScript has no such member: the function of the test is wrong.
    if (refusal === undefined) throw thrown;
    const [error, reason] = refusal;
    return { error, reason };
  }
}
