import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { HEAP_FLAG, YOUNG_FLAG } from "../../src/host/garbage-collection.ts";

test.each([HEAP_FLAG, YOUNG_FLAG])("V8 knows the flag %s", (flag) => {
  const options = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  expect(options).toContain(`${flag} `);
});
