/**
 * The library: nodes, replications and comparisons in the caller's process. `entries` are the
 * modules that the package exports; this file serves the command line.
 *
 *   kv              stores on the engines of a node
 *   jobs            the queue for job types of the caller
 *   node            a node without a socket, and its databases
 *   replication     replications and comparisons without a node
 *   pouchdb         replications with the interface of PouchDB
 *   kv-conformance  tests of the contract of an engine
 *   entries         the modules that the package exports
 *
 * Reading order: replication/options.ts, replication/replicate.ts, node/open-node.ts.
 */
export { type ComparisonFinding, compareSides } from "./replication/compare.ts";
export { type Connections, openConnections } from "./replication/connections.ts";
export { type OwnRun, openOwnRun } from "./replication/own-run.ts";
