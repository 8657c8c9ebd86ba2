/**
 * `/_tandem/commands`: shows the progress of commands for many jobs, and cancels or undoes them.
 * CouchDB has no counterpart.
 */
import {
  type CommandedJobs,
  type CommandPage,
  type BulkCommand as CommandRow,
  QUERIES,
} from "../../contract/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import {
  type BulkCommand,
  isoTime,
  type Replicator,
  type UndoRefusal,
} from "../../replicator/index.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { readDecider } from "./decider.ts";
import { noSuch } from "./no-such.ts";

export function commandRoutes({ bulk }: Pick<Replicator, "bulk">): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/commands", OPERATIONS, async (call) => {
      const { limit } = readQuery(call, QUERIES["GET /_tandem/commands"]);
      const commands = (await bulk.latest(limit)).map(commandView);
      return json(200, { commands } satisfies CommandPage);
    }),
    defineRoute("GET", "/_tandem/commands/{id}", OPERATIONS, async (call) => {
      const command = await bulk.get(parameter(call, "id"));
      if (command === undefined) throw noCommand(call);
      return json(200, commandView(command));
    }),
    defineRoute("DELETE", "/_tandem/commands/{id}", OPERATIONS, async (call) => {
      const outcome = await bulk.cancel(parameter(call, "id"));
      if (outcome === "missing") throw noCommand(call);
      return json(200, outcome === "done" ? { ok: true } : { ok: true, no_changes: true });
    }),
    defineRoute("POST", "/_tandem/commands/{id}/_undo", OPERATIONS, async (call) => {
      const decider = await readDecider(call);
      const command = await bulk.undo(parameter(call, "id"), decider);
      return typeof command === "string" ? refuse(call, command) : commandAnswer(command);
    }),
  ];
}

/**
 * The response to a command: its counts, or a 202 if the command still runs or was cancelled.
 * `Location` names the command.
 */
export function commandAnswer(
  { id, state, matched, changed }: BulkCommand,
  listed: Partial<Pick<CommandedJobs, "jobs">> = {},
): ApiResponse {
  const headers = { Location: `/_tandem/commands/${id}` };
  if (state !== "completed") return json(202, { ok: true, id, matched }, headers);
  return json(200, { ok: true, matched, changed, ...listed }, headers);
}

function refuse(call: Call, refusal: UndoRefusal): never {
  switch (refusal) {
    case "missing":
      throw noCommand(call);
    case "running":
      throw new ProtocolError(409, "conflict", "The command is still running; cancel it first.");
    case "not-kept": {
      const reason =
        "Replaced credentials cannot be restored, because the old ones are not kept; replace them again with the right ones.";
      throw new ProtocolError(409, "conflict", reason);
    }
    case "final":
      throw new ProtocolError(409, "conflict", "Only pausing and resuming jobs can be undone.");
  }
}

function noCommand(call: Call): ProtocolError {
  return noSuch(
    "command",
    parameter(call, "id"),
    "/_tandem/commands lists the commands of the last week",
  );
}

function commandView(command: BulkCommand): CommandRow {
  const { id, action, decider, state, matched, done, changed, failed } = command;
  return {
    id,
    action,
    user: decider.userName,
    why: decider.why ?? null,
    undoes: command.undoes ?? null,
    state,
    matched,
    done,
    changed,
    failed,
    started: isoTime(command.startedMs),
    ended: command.endedMs === undefined ? null : isoTime(command.endedMs),
    ...(command.rules === undefined ? {} : { rules: command.rules }),
  };
}
