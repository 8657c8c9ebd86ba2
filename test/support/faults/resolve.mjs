/** Loaded before a program: names below `.test` are known once the file `RESOLVED_NAMES` is there, and are this machine then. */
import dns from "node:dns";
import { existsSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const { lookup } = dns;
dns.lookup = (host, options, callback) => {
  const isHere = host.endsWith(".test") && existsSync(process.env.RESOLVED_NAMES);
  lookup(isHere ? "127.0.0.1" : host, options, callback);
};
syncBuiltinESMExports();
