/**
 * Files that are allowed to use `JSON.parse`, each with the reason. `JSON.parse` changes long
 * integers, 1.0 and the order of some members. Its results must therefore not be stored, compared
 * or forwarded as data; `parseJson` and the functions on JSON text are for that.
 */
const OWN_RECORD = "reads a record that this program wrote";
const FIELDS = "reads fields of known types, and keeps the text";
const COMMAND = "reads a command's members of known types";
const STRINGS = "reads strings only";

export const JSON_PARSE_USES: Readonly<Record<string, string>> = {
  "api/access/session.ts": STRINGS,
  "api/databases/conflict-policy.ts": OWN_RECORD,
  "api/databases/databases.ts": FIELDS,
  "api/documents/bulk-documents.ts": STRINGS,
  "api/documents/purge.ts": "reads revision lists, and the number of purges to list",
  "api/documents/revisions-difference.ts": STRINGS,
  "api/http/request-body.ts": COMMAND,
  "api/replication/job-query.ts": "reads a bookmark that this program wrote",
  "api/replication/jobs.ts": COMMAND,
  "api/server/node-configuration.ts": STRINGS,
  "base/json/json-parse.ts":
    "is the default parser, for callers that are listed here or use no numbers",
  "base/json/json-rows.ts": STRINGS,
  "base/json/json-value.ts": "implements parseJson",
  "cli/server/jobs.ts": "prints an event that this program wrote",
  "cli/server/secret-files.ts": STRINGS,
  "cli/replicate/conflicts.ts": "reads documents one by one",
  "cli/replicate/replicate.ts": "reads ids of documents",
  "dashboard/base/context.ts": "reads a query that it has serialized itself",
  "dashboard/base/saved-views.ts": STRINGS,
  "dashboard/pages/use-job-list.ts": "reads a query that it has serialized itself",
  "databases/records/body-record.ts": OWN_RECORD,
  "databases/security/security-object.ts": FIELDS,
  "documents/design-codes.ts": "checks whether a value is truthy in JavaScript",
  "documents/design-filter.ts": "builds an argument for a JavaScript function",
  "documents/resolve-conflict.ts": OWN_RECORD,
  "host/backup/format.ts": OWN_RECORD,
  "host/sandbox/code.ts": "reads an error of a JavaScript function",
  "host/sandbox/prelude.ts": "runs inside the JavaScript sandbox",
  "http-client/token-login.ts": FIELDS,
  "jobs/job-record.ts": OWN_RECORD,
  "kv/packed-json.ts": OWN_RECORD,
  "protocol/batch.ts": "reads the head of a message that this program wrote",
  "protocol/wire-document.ts": "reads positions and lengths, which are checked",
  "replicator/commands/replacement-commands.ts": OWN_RECORD,
  "replicator/documents/leaf-authority.ts": FIELDS,
  "replicator/documents/replication-document-access.ts": STRINGS,
  "replicator/endpoints/endpoint.ts": "keeps the text of a sequence that it would change",
  "replicator/endpoints/http/json-answer.ts": "reads fields of known types of an answer",
  "replicator/endpoints/named-revision.ts": STRINGS,
  "replicator/failures/failure-record.ts": OWN_RECORD,
  "replicator/jobs/job-status.ts": OWN_RECORD,
  "replicator/job-watching/parked-jobs.ts": OWN_RECORD,
  "replicator/logins/stored-login-gates.ts": OWN_RECORD,
  "replicator/nodes/node-report.ts": OWN_RECORD,
  "replicator/request/parse-fields.ts":
    "restores the exact numbers of members that are compared or sent",
  "replicator/rules/rule-store.ts":
    "reads its own record, with the exact numbers of a rule's members",
  "replicator/run/filter-code.ts": STRINGS,
  "replicator/checkpoints/replication-log.ts":
    "reads a checkpoint, with exact numbers in sequences",
  "server/reclaim-rounds.ts": OWN_RECORD,
  "server/secrets/key-record.ts": OWN_RECORD,
  "server/secrets/sealed-forms.ts": OWN_RECORD,
  "server/users/user-databases.ts": OWN_RECORD,
  "server/users/user-directory.ts": FIELDS,
  "server/users/user-passwords.ts": FIELDS,
  "server/users/users-hook.ts": FIELDS,
  "server/version.ts": "reads package.json",
  "server/secrets/changed-secrets.ts": OWN_RECORD,
};
