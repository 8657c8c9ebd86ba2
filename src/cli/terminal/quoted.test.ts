import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { quoted } from "./quoted.ts";

test.each([
  "5-g1AAAA",
  "a b",
  "",
  "'; touch x; '",
  "$(id)",
  "`id`",
  "*",
  "-n",
  "a'b''c",
  "\\",
  "ü",
])("a shell reads %j as one argument", (argument) => {
  const script = `printf '%s|' ${quoted(argument)}`;
  expect(execFileSync("sh", ["-c", script], { encoding: "utf8" })).toBe(`${argument}|`);
});

test("control characters are replaced, also at the end of a line", () => {
  expect(quoted("a\nb")).toBe("'a\ufffdb'");
  expect(quoted("a\n")).toBe("'a\ufffd'");
  expect(quoted("\u001b[2J")).toBe("'\ufffd[2J'");
});
