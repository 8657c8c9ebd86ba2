#!/usr/bin/env node
/**
 * The command `tandem` as it is installed. Says so on a Node.js that is too old, which could not even load the program, and hands
 * over to it otherwise. Written in what old versions understand.
 */
import { readFileSync } from "node:fs";

const PACKAGE = new URL("../package.json", import.meta.url);

/** `>=20.15` as numbers: the range that this package's `engines` has. */
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
