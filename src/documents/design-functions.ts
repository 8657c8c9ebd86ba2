/** Functions of design documents, for the code that runs filters and validations. */
import type { Runtime } from "../base/index.ts";
import type { Sandbox } from "../databases/index.ts";
import type { DesignCodes } from "./design-codes.ts";

/**
 * The sandbox for functions of design documents, and the time limit for one call: `[couchdb]
 * os_process_timeout`.
 */
export interface DesignFunctions {
  readonly runtime: Pick<Runtime, "clock" | "random">;
  readonly sandbox: Sandbox;
  readonly timeoutMs: number;
  /** Cache of the code of design documents. */
  readonly codes: DesignCodes;
}
