import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { HEAP_FLAG } from "../../src/host/bound-heap.ts";

test("V8 knows the flag that bounds its heap", () => {
  const options = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  expect(options).toContain(`${HEAP_FLAG} `);
});
