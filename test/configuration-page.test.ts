/** docs/configuration.md contains the tables that the code generates. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SETTINGS } from "../src/server/settings/config.ts";
import { withTables } from "../tools/configuration-page.ts";

const page = readFileSync(new URL("../docs/configuration.md", import.meta.url), "utf8");

test("docs/configuration.md contains the tables that the code generates (-u rewrites them)", async () => {
  await expect(withTables(page)).toMatchFileSnapshot("../docs/configuration.md");
});

test("docs/configuration.md names every setting that has an effect", () => {
  const missing = SETTINGS.filter(({ section, key }) => {
    return !page.includes(`\`${key}\``) && !page.includes(`\`[${section}] ${key}\``);
  });
  expect(missing.map(({ section, key }) => `[${section}] ${key}`)).toEqual([]);
});
