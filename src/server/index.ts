/** A node: what it is told, and what it is made of. */

export { SERVER_KEY_SHAPES } from "./layout.ts";
export type { RunningServer } from "./open-server.ts";
export { openServer } from "./open-server.ts";
export type { ServeOptions, ServerConfig } from "./settings/config.ts";
export { readConfig } from "./settings/config.ts";
export { ConfigError } from "./settings/settings.ts";
export { VERSION } from "./version.ts";
