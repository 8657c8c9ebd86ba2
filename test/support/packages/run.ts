/** Runs a program to its end. Its output counts as activity of the test. */
import { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { patience } from "../runner/patience.ts";

/** Returns the exit code, and everything that the program has printed. */
export async function run(
  program: string,
  flags: readonly string[],
  options: SpawnOptions,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(program, flags, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      output += chunk;
      patience.heard();
    });
  }
  const [code] = await patience.until(`${program} ${flags.join(" ")} to end`, once(child, "close"));
  return { code, output };
}
