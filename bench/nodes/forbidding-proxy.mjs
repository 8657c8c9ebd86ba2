/**
 * A proxy that forbids some resources of a server: `node forbidding-proxy.mjs URL
 * _db_updates,_dbs_info`. Prints its address. A separate process, so that its cost is not
 * attributed to the measuring process.
 */
import { Agent, createServer, request } from "node:http";
import { pipeline } from "node:stream";
import { portOf } from "../support/port-of.mjs";

const [url, names = ""] = process.argv.slice(2);
const forbidden = new Set(names.split(",").map((name) => `/${name}`));
const agent = new Agent({ keepAlive: true, timeout: 3000 });

const server = createServer((asked, answer) => {
  const { method, headers } = asked;
  if (forbidden.has(asked.url.replace(/\?.*/, ""))) {
    asked.resume();
    answer.writeHead(403, { "content-type": "application/json" });
    answer.end('{"error":"forbidden","reason":"You are not a server admin."}');
    return;
  }
  const passed = request(url + asked.url, { method, headers, agent }, (answered) => {
    answer.writeHead(answered.statusCode, answered.headers);
    pipeline(answered, answer, () => {});
  });
  passed.on("error", () => answer.destroy());
  answer.on("close", () => passed.destroy());
  asked.pipe(passed);
});
server.keepAliveTimeout = 100_000;
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${portOf(server)}\n`);
});
