/**
 * CouchDB's operations that Tandem implements, for the OpenAPI document. CouchDB defines their
 * JSON, which is only outlined here. As in CouchDB, unknown query parameters are ignored.
 */
import { type TSchema, Type } from "@sinclair/typebox";
import type { Operation } from "./operation.ts";
import type { Parameter, Query } from "./queries.ts";
import {
  count,
  described,
  flag,
  json,
  listOf,
  nullable,
  optional,
  recordOf,
  text,
} from "./schema.ts";

/** Schema of an object with these members and possibly others. */
function members(known: Readonly<Record<string, TSchema>> = {}): TSchema {
  return Type.Object(known);
}

function flagOf(meaning: string): Parameter {
  return { kind: "flag", meaning };
}

const integer = (meaning: string): Parameter => ({ kind: "integer", meaning });
const textOf = (meaning: string): Parameter => ({ kind: "text", meaning });
const jsonOf = (meaning: string): Parameter => ({ kind: "json", meaning });

const ok = members({ ok: flag });
const done = members({ ok: flag, id: text, rev: text });
const rows = members({ total_rows: optional(count), offset: optional(count), rows: listOf(json) });
const keys = members({ keys: listOf(json) });
const document = recordOf(json);
const documents = members({ docs: listOf(document), new_edits: optional(flag) });
const revisionsById = recordOf(listOf(text));
const queries = members({ queries: listOf(members()) });
const allResults = members({ results: listOf(rows) });
const security = members({
  admins: optional(members({ names: optional(listOf(text)), roles: optional(listOf(text)) })),
  members: optional(members({ names: optional(listOf(text)), roles: optional(listOf(text)) })),
});
const autoPurge = members({
  deleted_document_ttl: optional(described(text, "age such as 90_days, or infinity")),
});
const limitNumber = described(count, "the limit");

const revision = { rev: textOf("revision") };
const page = { limit: integer("maximum number of rows"), skip: integer("number of rows to skip") };
const descending = flagOf("whether rows are in reverse order");
const shown = {
  conflicts: flagOf("whether documents list their conflicting revisions"),
  attachments: flagOf("whether documents contain their attachments"),
  att_encoding_info: flagOf("whether attachments are described with their encoding"),
};
const range = {
  key: jsonOf("only rows with this key"),
  keys: jsonOf("only rows with these keys, in this order"),
  startkey: jsonOf("first key"),
  endkey: jsonOf("last key"),
  inclusive_end: flagOf("whether `endkey` belongs to the range; true by default"),
  descending,
  ...page,
};
const listed = {
  ...range,
  ...shown,
  include_docs: flagOf("whether rows contain the documents"),
  update_seq: flagOf("whether the response has the update sequence"),
};
const feed = {
  feed: {
    kind: "choice",
    values: ["normal", "longpoll", "continuous", "live", "eventsource"],
    meaning: "kind of feed, which determines when the response ends",
  },
  since: textOf("update sequence after which the feed starts, time (2026-01-31T23:59:59Z), or now"),
  limit: integer("maximum number of rows"),
  descending,
  heartbeat: textOf(
    "milliseconds between heartbeats (empty lines), or true for the default interval",
  ),
  timeout: integer("milliseconds without a change after which the response ends"),
} as const satisfies Query;
const changes = {
  ...feed,
  ...shown,
  filter: textOf("filter: `design/function`, _doc_ids, _selector, _design or _view"),
  view: textOf("`design/view` for filter=_view"),
  doc_ids: jsonOf("ids for filter=_doc_ids"),
  include_docs: flagOf("whether rows contain the documents"),
  style: {
    kind: "choice",
    values: ["main_only", "all_docs"],
    meaning: "whether rows list only the winner or all leaves",
  },
  seq_interval: integer("only every n-th row has its update sequence"),
} as const satisfies Query;
const read = {
  ...shown,
  rev: textOf("revision; the winner by default"),
  revs: flagOf("whether the response has the revision history"),
  revs_info: flagOf("whether the response lists the revisions with their states"),
  open_revs: jsonOf("leaves to return: a list of revisions, or the word all"),
  latest: flagOf(
    "whether the leaves that descend from the requested revisions are returned instead",
  ),
  atts_since: jsonOf("revisions whose attachments the client has"),
  deleted_conflicts: flagOf("whether the response lists deleted conflicting revisions"),
  local_seq: flagOf("whether the response has the update sequence of the document"),
  meta: flagOf("the same as conflicts, deleted_conflicts and revs_info together"),
};
const written = {
  ...revision,
  new_edits: flagOf("false: store the revision as it is, as replicators do"),
};

/** One entry per operation: summary, query, body, response. */
type Row = readonly [summary: string, parts?: Partial<Omit<Operation, "summary">>];

/** Operations of a list of documents at `path`. */
function listOperations(path: string, what: string): Readonly<Record<string, Row>> {
  return {
    [`GET ${path}`]: [`List ${what}`, { query: listed, answer: rows }],
    [`POST ${path}`]: [`List ${what} with these keys`, { query: listed, body: keys, answer: rows }],
    [`POST ${path}/queries`]: [
      `List ${what} for several queries`,
      { body: queries, answer: allResults },
    ],
  };
}

/** Operations of documents of one kind at `path`. */
function documentOperations(path: string, what: string): Readonly<Record<string, Row>> {
  return {
    [`GET ${path}`]: [`Read ${what}`, { query: read, answer: document }],
    [`PUT ${path}`]: [`Write ${what}`, { query: written, body: document, answer: done }],
    [`DELETE ${path}`]: [`Delete ${what}`, { query: revision, answer: done }],
    [`GET ${path}/{attachment}`]: [`Read an attachment of ${what}`, { query: revision }],
    [`PUT ${path}/{attachment}`]: [
      `Write an attachment of ${what}`,
      { query: revision, answer: done },
    ],
    [`DELETE ${path}/{attachment}`]: [
      `Delete an attachment of ${what}`,
      { query: revision, answer: done },
    ],
  };
}

const upload = "Attach files from an HTML form to";

const ROWS: Readonly<Record<string, Row>> = {
  "GET /": [
    "Show the version of the server",
    { answer: members({ couchdb: text, version: text }) },
  ],
  "GET /_up": ["Check whether the node serves requests", { answer: members({ status: text }) }],
  "GET /favicon.ico": ["Get the icon of the server"],
  "GET /_utils": ["Open Fauxton"],
  "GET /_utils/{file}": ["Get a file of Fauxton"],
  "GET /_dashboard": ["Open the dashboard"],
  "GET /_dashboard/{file}": ["Get a file of the dashboard"],
  "GET /_uuids": [
    "Generate ids",
    { query: { count: integer("number of ids") }, answer: members({ uuids: listOf(text) }) },
  ],
  "GET /_all_dbs": ["List databases", { query: range, answer: listOf(text) }],
  "GET /_dbs_info": ["Describe databases", { query: range, answer: listOf(members()) }],
  "POST /_dbs_info": ["Describe these databases", { body: keys, answer: listOf(members()) }],
  "GET /_db_updates": ["Follow changes of databases", { query: feed, answer: members() }],
  "GET /_membership": [
    "List the nodes of the cluster",
    { answer: members({ all_nodes: listOf(text), cluster_nodes: listOf(text) }) },
  ],
  "GET /_cluster_setup": ["Show the state of the cluster", { answer: members({ state: text }) }],
  "POST /_cluster_setup": [
    "Complete the set-up of a single node or cluster",
    { body: members({ action: text }), answer: ok },
  ],
  "GET /_session": [
    "Show the user of the session",
    {
      query: { basic: flagOf("whether the response to a request without a login asks for one") },
      answer: members(),
    },
  ],
  "POST /_session": [
    "Log in",
    {
      query: { next: textOf("path to redirect to after a login") },
      body: members({ name: text, password: text }),
      answer: members({ ok: flag, name: nullable(text), roles: listOf(text) }),
    },
  ],
  "DELETE /_session": ["Log out", { answer: ok }],
  "GET /_node/{node}": ["Show the name of a node", { answer: members({ name: text }) }],
  "GET /_node/{node}/_active_tasks": [
    "List running tasks of a node",
    { answer: listOf(members()) },
  ],
  "GET /_node/{node}/_config": ["Show the configuration", { answer: recordOf(recordOf(text)) }],
  "POST /_node/{node}/_config/_reload": [
    "Read the configuration files again",
    { answer: members({ ok: flag, restart_required: optional(listOf(text)) }) },
  ],
  "GET /_node/{node}/_config/{section}": ["Show a section", { answer: recordOf(text) }],
  "GET /_node/{node}/_config/{section}/{key}": ["Show a setting", { answer: text }],
  "PUT /_node/{node}/_config/{section}/{key}": [
    "Change a setting; returns the previous value",
    { body: text, answer: text },
  ],
  "DELETE /_node/{node}/_config/{section}/{key}": [
    "Remove a setting; returns the previous value",
    { answer: text },
  ],
  "GET /_node/{node}/_prometheus": ["Get metrics for Prometheus"],
  "GET /_node/{node}/_stats": ["Show statistics", { answer: members() }],
  "GET /_node/{node}/_stats/{path}": ["Show some statistics", { answer: json }],
  "GET /_node/{node}/_system": ["Show statistics of the process", { answer: members() }],
  "POST /_replicate": [
    "Start or cancel a transient replication",
    {
      body: described(document, "members of a replication document, and `cancel`"),
      answer: members({ ok: flag, _local_id: text }),
    },
  ],
  "GET /_scheduler/jobs": [
    "List replication jobs",
    { query: { ...page, descending }, answer: members({ total_rows: count, jobs: listOf(json) }) },
  ],
  "GET /_scheduler/jobs/{id}": ["Show a replication job", { answer: members() }],
  "GET /_scheduler/docs": [
    "List replication documents with their states",
    {
      query: {
        ...page,
        descending,
        states: textOf("states, separated by commas"),
        keys: range.keys,
      },
      answer: members({ total_rows: count, docs: listOf(json) }),
    },
  ],
  "GET /_scheduler/docs/{path}": [
    "List the documents of a _replicator database, or show one",
    { answer: members() },
  ],
  "GET /_active_tasks": ["List running tasks", { answer: listOf(members()) }],
  "GET /{database}": ["Describe a database", { answer: members({ db_name: text }) }],
  "PUT /{database}": ["Create a database", { answer: ok }],
  "DELETE /{database}": ["Delete a database", { answer: ok }],
  "POST /{database}": ["Create a document", { body: document, answer: done }],
  ...listOperations("/{database}/_all_docs", "documents"),
  ...listOperations("/{database}/_design_docs", "design documents"),
  ...listOperations("/{database}/_local_docs", "local documents"),
  "POST /{database}/_bulk_docs": [
    "Write several documents",
    { body: documents, answer: listOf(members()) },
  ],
  "POST /{database}/_bulk_get": [
    "Read several documents",
    {
      query: {
        revs: read.revs,
        latest: read.latest,
        attachments: shown.attachments,
        att_encoding_info: shown.att_encoding_info,
      },
      body: members({ docs: listOf(members({ id: text, rev: optional(text) })) }),
      answer: members({ results: listOf(json) }),
    },
  ],
  "GET /{database}/_changes": ["List or follow changes", { query: changes, answer: members() }],
  "POST /{database}/_changes": [
    "List or follow changes, with the filter in the body",
    { query: changes, body: members(), answer: members() },
  ],
  "POST /{database}/_revs_diff": [
    "Find the revisions that the database lacks",
    { body: revisionsById, answer: recordOf(members({ missing: listOf(text) })) },
  ],
  "POST /{database}/_missing_revs": [
    "Find the revisions that the database lacks, without listing possible ancestors",
    { body: revisionsById, answer: members({ missing_revs: revisionsById }) },
  ],
  "POST /{database}/_find": [
    "Find documents by a selector",
    {
      body: members({ selector: members() }),
      answer: members({ docs: listOf(document), bookmark: text }),
    },
  ],
  "POST /{database}/_explain": [
    "Show how a selector would be evaluated",
    { body: members({ selector: members() }), answer: members() },
  ],
  "GET /{database}/_index": [
    "List indexes",
    { query: page, answer: members({ total_rows: count, indexes: listOf(json) }) },
  ],
  "POST /{database}/_index": [
    "Create an index",
    { body: members({ index: members() }), answer: members({ id: text, name: text }) },
  ],
  "POST /{database}/_index/_bulk_delete": [
    "Delete indexes by their design documents",
    { body: members({ docids: listOf(text) }), answer: members() },
  ],
  "DELETE /{database}/_index/{design}/{type}/{name}": ["Delete an index", { answer: ok }],
  "DELETE /{database}/_index/_design/{design}/{type}/{name}": ["Delete an index", { answer: ok }],
  "GET /{database}/_design/{name}/_info": [
    "Describe the indexes of a design document",
    { answer: members() },
  ],
  "GET /{database}/_security": ["Show the security object", { answer: security }],
  "PUT /{database}/_security": ["Set the security object", { body: security, answer: ok }],
  "GET /{database}/_revs_limit": ["Show the limit of stored revisions", { answer: limitNumber }],
  "PUT /{database}/_revs_limit": [
    "Set the limit of stored revisions",
    { body: limitNumber, answer: ok },
  ],
  "POST /{database}/_purge": ["Purge revisions", { body: revisionsById, answer: members() }],
  "GET /{database}/_purged_infos": ["List purged revisions", { answer: members() }],
  "GET /{database}/_purged_infos_limit": [
    "Show the maximum number of stored purges",
    { answer: limitNumber },
  ],
  "PUT /{database}/_purged_infos_limit": [
    "Set the maximum number of stored purges",
    { body: limitNumber, answer: ok },
  ],
  "GET /{database}/_auto_purge": [
    "Show the age at which deleted documents are purged",
    { answer: autoPurge },
  ],
  "PUT /{database}/_auto_purge": [
    "Set the age at which deleted documents are purged",
    { body: autoPurge, answer: ok },
  ],
  "GET /{database}/_time_seq": [
    "Count the changes by time",
    { answer: members({ time_seq: members() }) },
  ],
  "DELETE /{database}/_time_seq": ["Delete the recorded times of changes", { answer: ok }],
  "POST /{database}/_ensure_full_commit": [
    "Confirm that all writes are stored",
    { answer: members({ ok: flag, instance_start_time: text }) },
  ],
  "POST /{database}/_compact": ["Compact a database", { answer: ok }],
  "POST /{database}/_compact/{design}": [
    "Compact the indexes of a design document",
    { answer: ok },
  ],
  "POST /{database}/_view_cleanup": ["Remove indexes that are no longer used", { answer: ok }],
  ...documentOperations("/{database}/{id}", "a document"),
  "POST /{database}/{id}": [`${upload} a document`, { answer: done }],
  ...documentOperations("/{database}/_design/{name}", "a design document"),
  "POST /{database}/_design/{name}": [`${upload} a design document`, { answer: done }],
  "GET /{database}/_local/{name}": ["Read a local document", { answer: document }],
  "PUT /{database}/_local/{name}": ["Write a local document", { body: document, answer: done }],
  "DELETE /{database}/_local/{name}": [
    "Delete a local document",
    { query: revision, answer: done },
  ],
  "POST /{database}/_local/{name}/_continue": [
    "Append the sessions of a replication log to the stored log, if it continues that log",
    {
      query: {
        instance_start_time: textOf(
          "instance start time that the database must have; with it, the log is created if it does not exist",
        ),
      },
      body: document,
      answer: done,
    },
  ],
};

export const COUCHDB_OPERATIONS: Readonly<Record<string, Operation>> = Object.fromEntries(
  Object.entries(ROWS).map(([name, [summary, parts = {}]]): [string, Operation] => [
    name,
    { answer: undefined, ...parts, summary },
  ]),
);
