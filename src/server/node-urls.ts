/** The URLs at which other machines reach a node. */
import { isIPv6 } from "node:net";
import type { ServerConfig } from "./settings/config.ts";

export function urlOf(config: ServerConfig, port: number): string {
  return `http://${hostOf(config)}:${port}/`;
}

export function tlsUrlOf(config: ServerConfig, port: number): string {
  return `https://${hostOf(config)}:${port}`;
}

/** Returns the bind address as a URL's host. */
function hostOf({ bindAddress }: ServerConfig): string {
  return isIPv6(bindAddress) ? `[${bindAddress}]` : bindAddress;
}
