/** URLs of a node as others reach it. */
import { isIPv6 } from "node:net";
import type { ServerConfig } from "./settings/config.ts";

export function urlOf(config: ServerConfig, port: number): string {
  return `http://${hostOf(config)}:${port}/`;
}

export function tlsUrlOf(config: ServerConfig, port: number): string {
  return `https://${hostOf(config)}:${port}`;
}

/** In URL form. */
function hostOf({ bindAddress }: ServerConfig): string {
  return isIPv6(bindAddress) ? `[${bindAddress}]` : bindAddress;
}
