/** The two sides of a replication, as callers name them. */
import { errorCode } from "../../base/index.ts";
import {
  type Endpoint,
  parseReplication,
  type Replication,
  type ReplicationIdContext,
  ReplicationInvalidError,
} from "../../replicator/index.ts";
import type { OpenedNode } from "../../server/index.ts";
import { IN_PROCESS, type NodeDatabase, nodeOf } from "../node/node-database.ts";
import type { Connections } from "./connections.ts";
import type { EndpointAuth, ReplicationEndpoint } from "./options.ts";

/** A parsed replication, with access to both of its sides. */
export interface OwnReplication {
  readonly replication: Replication;
  /** Context of the replication id if a side is a database of a node. */
  readonly ids: ReplicationIdContext | undefined;
  /** Opens a side. Databases of a node need no connection. */
  open(connections: Connections, side: "source" | "target"): Endpoint;
}

/** Parses both sides and the options of a replication document. */
export function parseOwnReplication(
  source: ReplicationEndpoint,
  target: ReplicationEndpoint,
  options: Readonly<Record<string, unknown>>,
): OwnReplication {
  const nodes = { source: nodeOfEndpoint(source), target: nodeOfEndpoint(target) };
  const replication = parseReplication({
    ...options,
    source: memberOf("source", source),
    target: memberOf("target", target),
  });
  if (replication.schedule !== undefined) throw new ReplicationInvalidError(NO_SCHEDULE);
  return {
    replication,
    ids: (nodes.source ?? nodes.target)?.parts.parts.ids,
    open(connections, side) {
      const address = replication[side];
      const node = nodes[side];
      if (address.kind !== "local" || node === undefined)
        return connections.open(replication, side);
      return node.endpoints.open(address, replication.options, IN_PROCESS);
    },
  };
}

const NO_SCHEDULE = "`schedule` is only supported in documents of a _replicator database";

function nodeOfEndpoint(endpoint: ReplicationEndpoint): OpenedNode | undefined {
  return typeof endpoint === "object" ? nodeOf(endpoint) : undefined;
}

/** Returns the endpoint as a member of a replication document. */
function memberOf(side: "source" | "target", endpoint: ReplicationEndpoint): unknown {
  if (endpoint instanceof URL) return endpoint.href;
  if (typeof endpoint !== "object" || endpoint === null) return checked(side, endpoint);
  if (nodeOf(endpoint) !== undefined) return (endpoint as NodeDatabase).name;
  const { url, ...rest } = endpoint as { url: unknown; auth?: EndpointAuth };
  return { ...rest, url: checked(side, url instanceof URL ? url.href : url) };
}

/** Returns a URL unchanged. Throws for the name of a database, which requires a node. */
function checked(side: string, url: unknown): unknown {
  if (typeof url !== "string" || /^https?:\/\//i.test(url)) return url;
  throw new ReplicationInvalidError(
    `\`${side}\` must be an http:// or https:// URL, or a database of an open node (node.databases.get(name))`,
  );
}

/** Whether retries are pointless until the caller or an operator intervenes. */
export function isFinal(error: unknown): boolean {
  return (
    error instanceof ReplicationInvalidError ||
    errorCode(error) === "KV_CLOSED" ||
    FINAL_ERRORS.has(String((error as { readonly error?: unknown }).error))
  );
}

const FINAL_ERRORS: ReadonlySet<string> = new Set(["unauthorized", "forbidden", "egress_denied"]);
