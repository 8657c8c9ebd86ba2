/** A node: what it is told, and what it is made of. */
export type { ServeOptions, ServerConfig } from "./config.ts";
export { readConfig } from "./config.ts";
export { SERVER_KEY_SHAPES } from "./layout.ts";
export type { RunningServer } from "./open-server.ts";
export { openServer } from "./open-server.ts";
export { ConfigError } from "./settings.ts";
export { VERSION } from "./version.ts";
