/**
 * A module to preload into a program. Once the file `RESOLVED_NAMES` exists, names below
 * `.localhost` resolve to this machine.
 */
import dns from "node:dns";
import { existsSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const { lookup } = dns;
const addressOf = () => (existsSync(process.env.RESOLVED_NAMES) ? "127.0.0.1" : "unknown.invalid");
dns.lookup = (host, options, callback) => {
  lookup(host.endsWith(".localhost") ? addressOf() : host, options, callback);
};
syncBuiltinESMExports();
