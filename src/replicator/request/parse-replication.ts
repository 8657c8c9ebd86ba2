/**
 * Parser of `_replicator` documents and `_replicate` bodies (RFC 016, `couch_replicator_parse`).
 * Uses CouchDB's error messages if they name the field.
 */

import { hasJsonNumber, printJson } from "../../base/index.ts";
import { type Option, REPLICATION_OPTIONS, WEIGHT } from "../../contract/index.ts";
import { checkSelector, ProtocolError } from "../../protocol/index.ts";
import { REPLICATOR_CONFIG_DEFAULT, type ReplicatorConfig } from "../replicator-config.ts";
import { parseAfter } from "./after.ts";
import { checkPair } from "./pair.ts";
import { parseEndpoint } from "./parse-endpoint.ts";
import {
  boolean,
  decode,
  isObject,
  type Members,
  optionalString,
  ReplicationInvalidError,
} from "./parse-fields.ts";
import { parseOmissions } from "./parse-omissions.ts";
import { parseOption, parseOptions } from "./parse-options.ts";
import type { Replication, Selection } from "./replication.ts";
import { parseRunOn } from "./run-on.ts";
import { parseSchedule } from "./schedule.ts";
import { startSequenceFault } from "./start-sequence.ts";
import { parseTags } from "./tags.ts";

/**
 * Maximum number of `doc_ids`, since each run reads, decodes and hashes all of them. CouchDB has no
 * limit.
 */
const DOCUMENT_IDS_MAX = 10_000;

type ParseConfig = Pick<ReplicatorConfig, "options" | "protocols">;

/**
 * Parses the members of a document or body. Throws a ReplicationInvalidError for the first invalid
 * member.
 */
export function parseReplication(
  members: Members,
  config: ParseConfig = REPLICATOR_CONFIG_DEFAULT,
): Replication {
  const parts = partsOf(members, config);
  parts.ignored();
  const weight = parts.weight();
  const omissions = parts.omissions();
  const schedule = parts.schedule();
  const tags = parts.tags();
  const runOn = parts.runOn();
  const after = parts.after();
  const pair = parts.pair();
  return {
    source: parts.source(),
    target: parts.target(),
    continuous: parts.continuous(),
    createTarget: parts.createTarget(),
    createTargetParameters: parts.createTargetParameters(),
    selection: parts.selection(),
    winningRevisionsOnly: parts.winningRevisionsOnly(),
    ...parts.since(),
    ...(weight === WEIGHT.default ? {} : { weight }),
    ...(omissions === undefined ? {} : { omissions }),
    ...(schedule === undefined ? {} : { schedule }),
    ...(tags === undefined ? {} : { tags }),
    ...(runOn === undefined ? {} : { runOn }),
    ...(after === undefined ? {} : { after }),
    ...(pair === undefined ? {} : { pair }),
    options: parseOptions(members, config.options),
  };
}

/** Returns the errors of all invalid parts, worded as in `parseReplication`; empty if valid. */
export function replicationFaults(members: Members, config: ParseConfig): readonly string[] {
  const options = Object.values(REPLICATION_OPTIONS).map(
    (option: Option) => () => parseOption(members, option, option.default),
  );
  const faults: string[] = [];
  for (const parse of [...Object.values(partsOf(members, config)), ...options]) {
    try {
      parse();
    } catch (error) {
      if (!(error instanceof ReplicationInvalidError)) throw error;
      faults.push(error.reason);
    }
  }
  return faults;
}

/** Returns the parsers of all members except the options. */
function partsOf(members: Members, { protocols }: ParseConfig) {
  return {
    // Erlang's socket options are checked, but have no effect.
    ignored: () => {
      optionalString(members, "socket_options");
      optionalString(members, "ibrowse_options");
    },
    weight: () => parseOption(members, WEIGHT, WEIGHT.default),
    source: () => parseEndpoint("source", members, protocols),
    target: () => parseEndpoint("target", members, protocols),
    continuous: () => boolean(members, "continuous", false),
    createTarget: () => boolean(members, "create_target", false),
    createTargetParameters: () => createTargetParameters(members.create_target_params),
    selection: () => parseSelection(members),
    winningRevisionsOnly: () => boolean(members, "winning_revs_only", false),
    since: () => parseSince(members.since_seq),
    omissions: () => parseOmissions(members),
    schedule: () => parseScheduleMember(members),
    tags: () => parseTags(members.tags),
    runOn: () => parseRunOn(members.run_on),
    after: () => parseAfter(members.after),
    pair: () => parsePair(members),
  };
}

function parsePair(members: Members): true | undefined {
  if (!boolean(members, "pair", false)) return undefined;
  checkPair(members);
  return true;
}

function parseScheduleMember({ schedule, continuous }: Members): string | undefined {
  if (schedule === undefined || schedule === null) return undefined;
  const { kind } = parseSchedule(schedule);
  if ((kind === "window") === (continuous === true)) return String(schedule);
  throw new ReplicationInvalidError(
    kind === "window"
      ? '`schedule` of a replication that is not continuous must include an interval, like "every 1d between 22:00 and 06:00"'
      : '`schedule` of a continuous replication must be a window, like "between 22:00 and 06:00"',
  );
}

function parseSelection(members: Members): Selection {
  const given = ["doc_ids", "filter", "selector"].filter(
    (name) => members[name] !== undefined && members[name] !== null,
  );
  if (given.length > 1) {
    throw new ReplicationInvalidError("`doc_ids`,`filter`,`selector` are mutually exclusive");
  }
  const queryParameters = parseQueryParameters(members.query_params);
  if (given[0] === "doc_ids") return { kind: "doc-ids", ids: parseDocumentIds(members.doc_ids) };
  if (given[0] === "filter") return parseFilter(members.filter, queryParameters);
  if (given[0] !== "selector") return { kind: "all" };
  return parseSelector(members.selector);
}

function parseSelector(selector: unknown): Selection {
  if (!isObject(selector)) {
    throw new ReplicationInvalidError("parameter `selector` must be a JSON object");
  }
  try {
    checkSelector(selector);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new ReplicationInvalidError(error.reason, error.error);
  }
  return { kind: "selector", selector: printJson(selector) };
}

function parseSince(since: unknown): Pick<Replication, "sinceSequence" | "sinceIsJson"> {
  if (since === undefined || since === null) return {};
  const fault = startSequenceFault("since_seq", since);
  if (fault !== undefined) throw new ReplicationInvalidError(fault);
  if (!hasJsonNumber(since)) return { sinceSequence: since };
  return { sinceSequence: printJson(since), sinceIsJson: true };
}

/**
 * Parses `doc_ids`. As in CouchDB, an empty id is accepted: no document has it, but it is part of
 * the replication id.
 */
function parseDocumentIds(value: unknown): string[] {
  if (!Array.isArray(value)) {
    throw new ReplicationInvalidError("parameter `doc_ids` must be an array");
  }
  if (value.length > DOCUMENT_IDS_MAX) {
    const reason = `\`doc_ids\` array must not have more than ${DOCUMENT_IDS_MAX} ids`;
    throw new ReplicationInvalidError(reason);
  }
  const ids = value.map((id: unknown) => {
    if (typeof id !== "string") {
      throw new ReplicationInvalidError("`doc_ids` array must contain strings");
    }
    return decode(id);
  });
  // Sort the ids, so that duplicates are neighbours: a set of ten thousand ids takes more memory
  // than the ids.
  ids.sort();
  return ids.filter((id, index) => id !== ids[index - 1]);
}

function parseQueryParameters(value: unknown): Members {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError("parameter `query_params` must be an object");
  }
  return value;
}

function parseFilter(name: unknown, queryParameters: Members): Selection {
  if (typeof name !== "string" || name.length < 2) {
    throw new ReplicationInvalidError("`filter` must be a string");
  }
  if (!name.startsWith("_") && !/^[^/]+\/./.test(name)) {
    throw new ReplicationInvalidError("Invalid filter. Must match `ddocname/filtername`.");
  }
  if (name === "_view" && !/^[^/]+\/[^/]+$/.test(String(queryParameters.view ?? ""))) {
    throw new ReplicationInvalidError("Invalid `view` parameter.");
  }
  return { kind: "filter", name, queryParameters: printJson(queryParameters) };
}

function createTargetParameters(value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError("parameter `create_target_params` must be a JSON object");
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => {
      if (isObject(item) || Array.isArray(item)) {
        throw new ReplicationInvalidError(
          `\`create_target_params.${name}\` must be a string, a number or a boolean`,
        );
      }
      return [name, typeof item === "string" ? item : printJson(item)];
    }),
  );
}
