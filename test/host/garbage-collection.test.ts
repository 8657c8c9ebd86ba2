import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { HEAP_FLAG, HELPERS_FLAG, YOUNG_FLAG } from "../../src/host/system/garbage-collection.ts";

test.each([HEAP_FLAG, YOUNG_FLAG, HELPERS_FLAG])("V8 knows the flag %s", (flag) => {
  const options = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  expect(options).toMatch(new RegExp(`^ +${flag.replace("--no-", "--")} `, "m"));
});
