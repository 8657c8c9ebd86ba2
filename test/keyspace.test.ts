import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { declaredShapes, keyspacePage, LISTED_SHAPES } from "../tools/keyspace.ts";

const sourceFolder = fileURLToPath(new URL("../src", import.meta.url));

test("docs/keyspace.md matches the code (-u rewrites the page)", async () => {
  await expect(keyspacePage()).toMatchFileSnapshot("../docs/keyspace.md");
});

test("every list of key shapes in the sources is in docs/keyspace.md", () => {
  const sources = readdirSync(sourceFolder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => readFileSync(join(sourceFolder, file), "utf8"));
  expect(declaredShapes(sources)).toEqual(LISTED_SHAPES);
});

test("a list that is missing in docs/keyspace.md is detected", () => {
  const source = "export const NEW_KEY_SHAPES: readonly KeyShape[] = [];";
  expect(declaredShapes([source])).toEqual(["NEW_KEY_SHAPES"]);
});
