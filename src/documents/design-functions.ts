/** The functions of design documents, for code that runs them: filters and validations. */
import type { Runtime } from "../base/index.ts";
import type { Sandbox } from "../databases/index.ts";
import type { DesignCodes } from "./design-codes.ts";

/** Functions of design documents, and how long one may take: `[couchdb] os_process_timeout`. */
export interface DesignFunctions {
  readonly runtime: Pick<Runtime, "clock" | "random">;
  readonly sandbox: Sandbox;
  readonly timeoutMs: number;
  /** What is remembered of design documents. */
  readonly codes: DesignCodes;
}
