/** Pauses failing jobs until their server recovers: `node pause-failing.mjs URL HOST`. */
import { createClient } from "couch-tandem/client";

const [url, host] = process.argv.slice(2);
const client = createClient({ url });
for await (const { name, last_failure } of client.jobs.list({ failing: true, host })) {
  process.stdout.write(`${name}: ${last_failure?.reason}\n`);
}
const command = client.jobs.commandAll("pause", { failing: true, host }, { why: `${host} is down` });
for await (const { done, matched } of command) process.stderr.write(`${done} of ${matched}\n`);
process.stdout.write(`${(await command).changed} paused\n`);
