/**
 * The library: nodes, replications and comparisons in the caller's process. `entries` are the
 * modules that the package exports; this file serves the command line.
 *
 *   node          a node without a socket, and its databases
 *   replication   replications and comparisons without a node
 *
 * Reading order: replication/options.ts, replication/replicate.ts, node/open-node.ts.
 */
export { type ComparisonFinding, compareSides } from "./replication/compare.ts";
export { type Connections, openConnections } from "./replication/connections.ts";
export { type OwnRun, openOwnRun } from "./replication/own-run.ts";
