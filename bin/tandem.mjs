#!/usr/bin/env node
/**
 * The installed command `tandem`. Starts the program, or prints an error if Node.js is too old to
 * load it. Uses only syntax that old versions support.
 */
import { readFileSync } from "node:fs";

const PACKAGE = new URL("../package.json", import.meta.url);

/** Returns the minimum version in this package's `engines` (`>=20.15`) as numbers. */
function oldestVersion() {
  const { engines } = JSON.parse(readFileSync(PACKAGE, "utf8"));
  return engines.node.match(/\d+/g).map(Number);
}

const [majorMin, minorMin] = oldestVersion();
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < majorMin || (major === majorMin && minor < minorMin)) {
  console.error(
    `tandem needs Node.js ${majorMin}.${minorMin} or later, and this is ${process.versions.node}: ` +
      "install a newer one (https://nodejs.org), or use the container image",
  );
  process.exitCode = 2;
} else {
  await import("../dist/program/main.js");
}
