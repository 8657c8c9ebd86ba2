/**
 * `tandem demo`, which `npm run demo` runs: it copies two databases, compares them, and leaves
 * nothing behind.
 */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { patience } from "../support/runner/patience.ts";

const TANDEM = fileURLToPath(new URL("../../bin/tandem.mjs", import.meta.url));

test("the demo copies its sample data, verifies the copies, and removes what it created", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tandem-test-"));
  try {
    const env = { ...process.env, TMPDIR: folder };
    const running = new Promise<{ code: number | null; output: string }>((resolve) => {
      const child = execFile(process.execPath, [TANDEM, "demo"], { env }, (_, output, errors) =>
        resolve({ code: child.exitCode, output: output + errors }),
      );
      child.stdout?.on("data", () => patience.heard());
    });
    const { code, output } = await patience.until("the demo to end", running);
    expect([code, code === 0 ? "" : output]).toEqual([0, ""]);
    for (const database of ["films", "countries"]) {
      expect(output).toMatch(new RegExp(`${database}: .*no differences`));
    }
    // The node has stopped, so its URLs would be useless.
    expect(output).not.toMatch(/https?:\/\//);
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the demo prints a line before it loads the node", () => {
  const hooks = `export async function load(url, context, next) {
    if (/\\/dist\\/program\\/demo-/.test(url)) throw new Error("loads " + url);
    return next(url, context);
  }`;
  const register = `import { register } from "node:module"; register(${JSON.stringify(dataUrl(hooks))})`;
  const flags = ["--import", dataUrl(register)];
  const ended = spawnSync(process.execPath, [...flags, TANDEM, "demo"], { encoding: "utf8" });
  expect(ended.stderr).toContain("/dist/program/demo-");
  expect(ended.stdout).toMatch(/^Tandem's demo: starting a node .*\n$/);
});

function dataUrl(program: string): string {
  return `data:text/javascript,${encodeURIComponent(program)}`;
}
