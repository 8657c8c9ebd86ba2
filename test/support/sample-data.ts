/** Bundled sample data. Each line contains one document. */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { TandemNode } from "./open-process.ts";

export function sampleLines(name: "films" | "countries"): string[] {
  const file = new URL(`../../demo/data/${name}.ndjson.gz`, import.meta.url);
  return gunzipSync(readFileSync(file)).toString("utf8").trimEnd().split("\n");
}

/** Creates a database, and loads documents into it in bulk. */
export async function load(
  server: Pick<TandemNode, "call">,
  database: string,
  lines: readonly string[],
): Promise<void> {
  const created = await server.call("PUT", `/${encodeURIComponent(database)}`);
  if (created.status !== 201) throw new Error(JSON.stringify(created.body));
  for (let start = 0; start < lines.length; start += 500) {
    const docs = lines.slice(start, start + 500).join(",");
    const path = `/${encodeURIComponent(database)}/_bulk_docs`;
    const { status, body } = await server.call("POST", path, `{"docs":[${docs}]}`);
    if (status !== 201) throw new Error(JSON.stringify(body));
  }
}
