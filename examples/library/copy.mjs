/** Copies and compares two databases, with progress: `node copy.mjs SOURCE TARGET`. */
import { replicate, verify } from "couch-tandem";

const [source, target] = process.argv.slice(2);
const replication = replicate(source, target, { create_target: true });
for await (const { docs_written, changes_pending } of replication) {
  process.stderr.write(`${docs_written} written, ${changes_pending ?? "?"} pending\n`);
}
const { docs_written, failures } = await replication;
const { ok, differences } = await verify(source, target);
process.stdout.write(`${docs_written} copied, ${failures.length} failed, ${differences} differ\n`);
process.exitCode = ok ? 0 : 1;
