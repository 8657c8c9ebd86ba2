/**
 * A real CouchDB, tested with the same row tables as this API. `COUCHDB_URL` contains the address
 * of CouchDB and an administrator's credentials. Database names get a prefix in requests, so that
 * no other database is changed. The prefix is removed from responses, so that the same rows apply.
 */
import { randomBytes } from "node:crypto";
import { request as sendRequest } from "node:http";
import { onTestFinished } from "vitest";
import { type Answer, type Asked, type AskOptions, bodyBytes, parsed } from "./api.fixture.ts";

export const COUCHDB_URL = process.env.COUCHDB_URL;

const SYSTEM_NAMES = ["_users", "_replicator", "_global_changes"];

/**
 * Connects to CouchDB and creates a database `films`. Databases created by a test are removed after
 * the test.
 */
export async function openCouchdbFilms(): Promise<Asked> {
  const prefix = `tandem-${randomBytes(6).toString("hex")}-`;
  const made = new Set<string>();
  onTestFinished(async () => {
    for (const path of made) await send(`DELETE ${path}`, {});
  });
  const ask = async (request: string, options: AskOptions = {}): Promise<Answer> => {
    const [method = "", target = ""] = split(request);
    const prefixed = withPrefix(target, prefix);
    // Only databases created by the test may be removed.
    if (method === "PUT" && prefixed !== target && /^\/+[^/?]+\/*(\?q=1)?$/.test(target)) {
      made.add(prefixed.replace(/\?.*/, ""));
    }
    return withoutPrefix(await send(`${method} ${prefixed}`, options), prefix);
  };
  // One shard, so that `_changes` returns changes in the order in which they were written.
  await ask("PUT /films?q=1");
  return { ask };
}

function withPrefix(target: string, prefix: string): string {
  const [, slashes = "", first = "", rest = ""] = /^(\/*)([^/?]*)(.*)$/s.exec(target) ?? [];
  const isDatabase = first !== "" && (!first.startsWith("_") || SYSTEM_NAMES.includes(first));
  return `${slashes}${isDatabase && !SYSTEM_NAMES.includes(first) ? prefix : ""}${first}${rest}`;
}

function withoutPrefix(answer: Answer, prefix: string): Answer {
  const text = answer.text.replaceAll(prefix, "");
  const headers = Object.fromEntries(
    Object.entries(answer.headers).map(([name, value]) => [name, value.replaceAll(prefix, "")]),
  );
  return { ...answer, headers, text, json: parsed(text) };
}

function split(request: string): [string, string] {
  const space = request.indexOf(" ");
  return [request.slice(0, space), request.slice(space + 1)];
}

function send(request: string, { body, headers = {} }: AskOptions): Promise<Answer> {
  const { hostname, port, username, password } = new URL(COUCHDB_URL ?? "");
  const [method, path] = split(request);
  const bytes = bodyBytes(body);
  const sent: Record<string, string> = { "Content-Type": "application/json", ...headers };
  if (body === undefined && !("Content-Type" in headers)) delete sent["Content-Type"];
  if (body !== undefined || method !== "GET") sent["Content-Length"] = String(bytes.length);
  const auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return new Promise((resolve, reject) => {
    const options = { hostname, port, method, path, headers: sent, auth, agent: false };
    const asked = sendRequest(options, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      const answer = Buffer.concat(chunks);
      const text = answer.toString();
      const named = Object.entries(response.headers).map(([name, value]) => [name, String(value)]);
      resolve({
        status: response.statusCode ?? 0,
        headers: Object.fromEntries(named),
        bytes: answer,
        text,
        json: parsed(text),
      });
    });
    asked.on("error", reject);
    asked.end(bytes);
  });
}
