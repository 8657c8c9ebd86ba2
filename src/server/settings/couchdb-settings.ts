/**
 * CouchDB's settings (`default.ini` of 3.5) that have no effect here, with the reasons. Setting one
 * is reported by name (`settings-advice.ts`); docs/configuration.md lists them. All others are
 * settings of ours, with CouchDB's names.
 */
import { type Setting, sectionOf } from "./settings.ts";

export interface IneffectiveSettings {
  /** With a final `*`, all sections with this prefix. */
  readonly section: string;
  /** Absent for the whole section. */
  readonly keys?: readonly string[];
  /** Reason why setting them has no effect. */
  readonly why: string;
}

const NO_SHARDS = "databases have no shards";
const NO_VIEWS = "there are no views";
const NO_SEARCH = "there is no text search";
const NO_FILES = "databases are no files of their own";
const NO_ERLANG = "it tunes Erlang's runtime";
const NO_BACKEND = "there is no second port for administrators";
const TO_STANDARD_ERROR = "the log goes to standard error, a line for each event";
const NO_HANDLERS = "programs and modules of CouchDB cannot be plugged in";

export const INEFFECTIVE_SETTINGS: readonly IneffectiveSettings[] = [
  {
    section: "chttpd",
    keys: ["peer_header"],
    why: "`[tandem] trusted_proxies` names the proxies whose `X-Forwarded-For` counts",
  },
  {
    section: "config",
    why: "files of settings are read at the start, and `local.ini` as it changes",
  },
  { section: "bt_engine_cache", why: NO_FILES },
  { section: "hibernate_after", why: NO_ERLANG },
  { section: "couch_auto_purge_plugin", why: NO_HANDLERS },
  { section: "nouveau_index_upgrader", why: NO_SEARCH },
  { section: "couchdb", keys: ["index_cleanup_delay_msec"], why: NO_VIEWS },
  {
    section: "couchdb",
    keys: ["upgrade_in_progress", "prohibit_downgrade"],
    why: "the store itself says which versions may open it",
  },
  { section: "couchdb", keys: ["view_index_dir"], why: NO_VIEWS },
  {
    section: "couchdb",
    keys: [
      "max_dbs_open",
      "file_compression",
      "attachment_stream_buffer_size",
      "btree_chunk_size",
      "stem_interactive_updates",
      "update_lru_on_read",
      "default_engine",
      "compaction_log_level",
      "write_xxhash_checksums",
      "use_cfile",
      "cfile_skip_ioq",
      "delete_after_rename",
      "max_couch_server_shards",
      "time_seq_min_time",
    ],
    why: NO_FILES,
  },
  { section: "couchdb", keys: ["util_driver_dir", "plugin_dir"], why: NO_HANDLERS },
  { section: "couchdb", keys: ["js_engine"], why: "functions run in QuickJS" },
  { section: "couchdb", keys: ["uri_file"], why: "the addresses are printed at the start" },
  {
    section: "couchdb",
    keys: ["single_node"],
    why: "`_users` and `_replicator` are always there",
  },
  { section: "couchdb", keys: ["max_partition_size"], why: "databases have no partitions" },
  {
    section: "couchdb",
    keys: ["changes_doc_ids_optimization_threshold"],
    why: "the filter `_doc_ids` looks up to 100 ids up, and reads the feed for more",
  },
  {
    section: "couchdb",
    keys: ["max_document_id_length", "max_attachment_size"],
    why: "the limits of the store count",
  },
  { section: "couchdb", keys: ["attachment_writer_timeout", "read_repair_lag"], why: NO_SHARDS },
  {
    section: "purge",
    why: "100 documents and 1000 revisions are purged in a transaction, and more in several",
  },
  { section: "couchdb_engines", why: NO_FILES },
  { section: "process_priority", why: NO_ERLANG },
  {
    section: "cluster",
    why: `nodes that share a store find each other there, and ${NO_SHARDS}`,
  },
  {
    section: "chttpd",
    keys: ["socket_options", "server_options", "bulk_get_use_batches", "scrub_json_request"],
    why: NO_ERLANG,
  },
  { section: "chttpd", keys: ["secure_rewrites", "rewrite_limit"], why: "there are no rewrites" },
  { section: "chttpd", keys: ["stats_reporter"], why: NO_HANDLERS },
  { section: "chttpd", keys: ["allow_jsonp"], why: "JSONP is not answered; use CORS" },
  {
    section: "chttpd",
    keys: ["prefer_minimal"],
    why: "the header Prefer is not followed",
  },
  { section: "chttpd", keys: ["buffer_response"], why: "an answer begins before it is complete" },
  {
    section: "chttpd",
    keys: ["max_uri_length"],
    why: "the request line and all headers may have 64 KiB",
  },
  {
    section: "chttpd",
    keys: ["config_whitelist"],
    why: "whoever may change settings may change all of them but those that only the file has",
  },
  { section: "chttpd", keys: ["server_header_versions"], why: "the header Server is always sent" },
  {
    section: "chttpd",
    keys: ["disconnect_check_msec", "disconnect_check_jitter_msec"],
    why: "a client that is gone is noticed at once",
  },
  {
    section: "chttpd",
    keys: ["enable_xframe_options"],
    why: "the header X-Frame-Options is not sent; a proxy in front can add it",
  },
  {
    section: "x_frame_options",
    why: "the header X-Frame-Options is not sent; a proxy in front can add it",
  },
  {
    section: "httpd",
    keys: [
      "port",
      "bind_address",
      "enable",
      "authentication_handlers",
      "server_options",
      "socket_options",
    ],
    why: NO_BACKEND,
  },
  {
    section: "chttpd_auth",
    keys: ["auth_cache_size"],
    why: "documents of `_users` are read when they are needed",
  },
  {
    section: "chttpd_auth",
    keys: ["authentication_redirect"],
    why: "who is not logged in is answered 401 and not sent to a page",
  },
  { section: "chttpd_auth_cache", why: "documents of `_users` are read when they are needed" },
  { section: "couch_passwords_cache", why: "passwords that were right are not kept" },
  {
    section: "couch_peruser",
    keys: ["q", "n", "cluster_start_period", "cluster_quiet_period"],
    why: NO_SHARDS,
  },
  { section: "mem3", why: NO_SHARDS },
  { section: "fabric", why: NO_SHARDS },
  { section: "rexi", why: NO_SHARDS },
  { section: "reshard", why: NO_SHARDS },
  { section: "mem3_reshard", why: NO_SHARDS },
  { section: "custodian", why: NO_SHARDS },
  { section: "global_changes", why: "`_db_updates` is read from the store" },
  { section: "view_updater", why: NO_VIEWS },
  { section: "view_compaction", why: NO_VIEWS },
  { section: "database_compaction", why: NO_FILES },
  { section: "compactions", why: NO_FILES },
  { section: "vhosts", why: "there are no virtual hosts; a proxy in front can rewrite paths" },
  {
    section: "ssl",
    keys: ["ecc_curves", "signature_algs"],
    why: "those of Node.js count; `ciphers` and `tls_versions` can be restricted",
  },
  { section: "view_upgrade", why: NO_VIEWS },
  { section: "indexers", why: "there are no views, and jobs build the indexes of `_find`" },
  {
    section: "csp",
    why: "the header Content-Security-Policy of pages and attachments is CouchDB's default",
  },
  {
    section: "ddoc_cache",
    why: "compiled functions are kept by each node as long as they are used",
  },
  {
    section: "query_server_config",
    why: "functions run in threads of the node, one for each core",
  },
  { section: "quickjs", why: "the memory of a function is limited to a fixed size" },
  {
    section: "mango",
    why: "pages of `_find` are 25 documents unless the request says otherwise, and more than 10 documents read for each are warned of",
  },
  {
    section: "replicator",
    keys: ["max_acceptors"],
    why: "there are no acceptor processes: a free slot is filled at once",
  },
  { section: "replicator", keys: ["create_replicator_db"], why: "`_replicator` always exists" },
  {
    section: "replicator",
    keys: ["update_docs"],
    why: "states other than completed and failed are at `_scheduler` (RFC 016)",
  },
  {
    section: "replicator",
    keys: ["cluster_start_period", "cluster_quiet_period"],
    why: "no node owns documents, so no node waits for others",
  },
  {
    section: "replicator",
    keys: ["socket_options", "valid_socket_options", "ibrowse_options", "valid_ibrowse_options"],
    why: "options of Erlang's sockets and client; connections are kept alive, without Nagle's delay",
  },
  {
    section: "replicator",
    keys: ["cacert_reload_interval_hours"],
    why: "files with authorities are read again within ten seconds of their change",
  },
  {
    section: "replicator",
    keys: ["priority_coeff"],
    why: "a decay of all priorities does not change their order",
  },
  {
    section: "log",
    keys: [
      "max_message_size",
      "strip_last_msg",
      "filter_fields",
      "writer",
      "file",
      "write_buffer",
      "write_delay",
      "syslog_host",
      "syslog_port",
      "syslog_appid",
      "syslog_facility",
      "syslog_enterprise_number",
      "include_sasl",
      "report_level",
    ],
    why: TO_STANDARD_ERROR,
  },
  { section: "stats", why: "figures are counted as they come" },
  { section: "smoosh*", why: "there is nothing to compact" },
  { section: "ioq*", why: "the store orders its own reads and writes" },
  { section: "dreyfus", why: NO_SEARCH },
  { section: "nouveau", why: NO_SEARCH },
  { section: "prometheus", why: "`/_node/_local/_prometheus` is on the port of the API only" },
  { section: "disk_monitor", why: "a full disk refuses writes by itself" },
  { section: "couch_scanner*", why: "there is no scanner of databases" },
  { section: "couch_quickjs_scanner_plugin*", why: "there is no scanner of databases" },
  { section: "off_heap_mqd", why: NO_ERLANG },
  { section: "daemons", why: NO_HANDLERS },
  { section: "external", why: NO_HANDLERS },
  { section: "os_daemons", why: NO_HANDLERS },
  { section: "httpd_design_handlers", why: NO_HANDLERS },
  { section: "httpd_db_handlers", why: NO_HANDLERS },
  { section: "httpd_global_handlers", why: NO_HANDLERS },
  { section: "query_servers", why: NO_HANDLERS },
  { section: "native_query_servers", why: NO_HANDLERS },
];

/** Sections whose keys are chosen by users. */
export const FREE_SECTIONS: readonly string[] = [
  "admins",
  "jwt_keys",
  "replicator.shares",
  "feature_flags",
  "vendor",
];

/** Settings that would be dangerous to ignore. They may only be set to what is done anyway. */
export const REFUSED_SETTINGS: readonly Setting<unknown>[] = [
  fixed("chttpd_auth", "authentication_db", "_users", "users are found in no other database"),
  fixed("couch_httpd_auth", "authentication_db", "_users", "users are found in no other database"),
  fixed("couchdb", "users_db_suffix", "_users", "users are found in no other database"),
  fixed(
    "couchdb",
    "enable_database_recovery",
    "false",
    "a database that is deleted cannot be recovered",
  ),
  fixed(
    "replicator",
    "connect_to",
    "",
    "jobs would connect to the hosts in their URLs; name the other host there, or use a proxy",
  ),
];

function fixed(section: string, key: string, value: string, why: string): Setting<string> {
  return sectionOf(section).parsed(key, {
    default: value,
    meaning: why,
    parse: (text) =>
      text === value ? { value } : { expected: `${value === "" ? "no value" : value}: ${why}` },
  });
}
