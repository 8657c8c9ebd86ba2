/**
 * A command for many jobs. Its jobs are selected once and stored as a list, so that the command
 * applies to exactly these jobs, continues on another node if its node dies, and can be undone.
 */
import { packJson, unpackJson } from "../../kv/index.ts";
import type { Decider } from "../jobs/job-control.ts";

export const BULK_ACTIONS = [
  "pause",
  "resume",
  "retry",
  "reset",
  "cancel",
  "retry_failures",
] as const;
/**
 * Action that replaces credentials (`replacement-commands.ts`). Not in `BULK_ACTIONS`, because it
 * needs the new credentials in addition to a filter.
 */
export const REPLACE_CREDENTIALS = "replace_credentials";
export type BulkAction = (typeof BULK_ACTIONS)[number] | typeof REPLACE_CREDENTIALS;

/** Actions that can be undone, each with the action that undoes it. */
export const OPPOSITES: Readonly<Partial<Record<BulkAction, BulkAction>>> = {
  pause: "resume",
  resume: "pause",
};

export interface BulkCommand {
  /** 32 hex digits; ids sort by start time. */
  readonly id: string;
  readonly action: BulkAction;
  readonly decider: Pick<Decider, "userName" | "why" | "requestId">;
  /**
   * Id of the command that this command undoes, if any. Both commands use the list of the undone
   * command.
   */
  readonly undoes: string | undefined;
  readonly state: "running" | "completed" | "cancelled";
  readonly startedMs: number;
  readonly endedMs: number | undefined;
  /** Number of jobs in the list. */
  readonly matched: number;
  /** Number of jobs processed. */
  readonly done: number;
  readonly changed: number;
  /** Number of jobs whose state does not permit the action. */
  readonly failed: number;
  /** Names of the rules that the command has changed, if any. */
  readonly rules?: readonly string[] | undefined;
  /** Position of the next job: a page of the list, and an index in it. */
  readonly next: { readonly page: number; readonly index: number };
}

/** Format version, stored as the first element. */
const FORMAT = 1;

export function encodeBulkCommand({ id: _, ...command }: BulkCommand): Uint8Array {
  return packJson(FORMAT, command);
}

export function decodeBulkCommand(id: string, value: Uint8Array): BulkCommand {
  const command = decodeJson(value) as Omit<BulkCommand, "id">;
  return { ...command, undoes: command.undoes, endedMs: command.endedMs, id };
}

/** Encodes a page of a command's list of jobs. */
export function encodeJobIds(jobIds: readonly string[]): Uint8Array {
  return packJson(FORMAT, jobIds);
}

export function decodeJobIds(value: Uint8Array): readonly string[] {
  return decodeJson(value) as readonly string[];
}

function decodeJson(value: Uint8Array): unknown {
  return unpackJson(value, FORMAT, "Unknown format of a command");
}
