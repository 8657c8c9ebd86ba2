/**
 * CouchDB's settings (`default.ini` of 3.5) that have no effect here, with the reasons. If such a
 * setting is set, a warning names it (`settings-advice.ts`). All other settings of CouchDB are
 * supported under the same name. They have an effect even if the list contains their whole section.
 *
 * The reasons are part of the code, because a warning, the dashboard and `tandem config` show them
 * to operators who migrate from CouchDB. The list in docs/configuration.md is generated from them.
 */
import { SKIPPED_DATABASES_SECTION } from "./auto-purge-settings.ts";
import { type Setting, sectionOf } from "./settings.ts";

export interface IneffectiveSettings {
  /** Section name; with a final `*`, all sections with this prefix. */
  readonly section: string;
  /** Keys; undefined for the whole section. */
  readonly keys?: readonly string[];
  /** Reason why the settings have no effect. */
  readonly why: string;
}

const NO_SHARDS = "databases have no shards";

/**
 * Settings without effect by reason, in the form `SECTION: KEY KEY; SECTION`. A section without
 * keys stands for all its keys. A section with a final `*` stands for all sections with this
 * prefix.
 */
const INEFFECTIVE: readonly (readonly [why: string, settings: string])[] = [
  [
    "configuration files are read at startup and by `_reload`; `local.ini` also when it changes",
    `config`,
  ],
  [
    "databases are not separate files",
    `bt_engine_cache; couchdb: max_dbs_open file_compression attachment_stream_buffer_size
    btree_chunk_size stem_interactive_updates update_lru_on_read default_engine
    compaction_log_level write_xxhash_checksums use_cfile cfile_skip_ioq delete_after_rename
    max_couch_server_shards; couchdb_engines; database_compaction; compactions`,
  ],
  [
    "for Erlang's runtime",
    `hibernate_after; process_priority; chttpd: socket_options server_options
    bulk_get_use_batches scrub_json_request; off_heap_mqd`,
  ],
  [
    "there are no plugins",
    `couchdb: util_driver_dir plugin_dir; chttpd: stats_reporter;
    daemons; external; os_daemons; httpd_design_handlers; httpd_db_handlers;
    httpd_global_handlers; query_servers; native_query_servers`,
  ],
  ["there is no text search", `nouveau_index_upgrader; dreyfus; nouveau`],
  [
    "there are no views",
    `couchdb: index_cleanup_delay_msec view_index_dir; view_updater; view_compaction;
    view_upgrade`,
  ],
  [
    "the store records which versions may open it",
    `couchdb: upgrade_in_progress prohibit_downgrade`,
  ],
  ["functions run in QuickJS", `couchdb: js_engine`],
  ["the addresses are printed at startup", `couchdb: uri_file`],
  ["`_users` and `_replicator` always exist", `couchdb: single_node`],
  ["databases have no partitions", `couchdb: max_partition_size`],
  ["the threshold is always 100 `doc_ids`", `couchdb: changes_doc_ids_optimization_threshold`],
  ["the limits of the store apply", `couchdb: max_document_id_length max_attachment_size`],
  [
    NO_SHARDS,
    `couchdb: attachment_writer_timeout read_repair_lag; couch_peruser: q n cluster_start_period
    cluster_quiet_period; mem3; fabric; rexi; reshard; mem3_reshard; custodian`,
  ],
  ["large purges are split", `purge`],
  [`nodes discover each other in the store`, `cluster`],
  ["there are no rewrites", `chttpd: secure_rewrites rewrite_limit`],
  ["JSONP is not supported; use CORS", `chttpd: allow_jsonp`],
  ["the header Prefer is ignored", `chttpd: prefer_minimal`],
  ["responses are streamed, and begin before they are complete", `chttpd: buffer_response`],
  ["request line and headers together are limited to 64 KiB", `chttpd: max_uri_length`],
  [
    "administrators may change all settings except those read only from the file of `--config`",
    `chttpd: config_whitelist`,
  ],
  ["the header Server is always sent", `chttpd: server_header_versions`],
  [
    "a disconnected client is detected immediately",
    `chttpd: disconnect_check_msec disconnect_check_jitter_msec`,
  ],
  [
    "X-Frame-Options is not sent; a proxy can add it",
    `chttpd: enable_xframe_options; x_frame_options`,
  ],
  [
    "there is no second port for administrators",
    `httpd: port bind_address enable authentication_handlers server_options socket_options`,
  ],
  ["`_users` is read when needed", `chttpd_auth: auth_cache_size; chttpd_auth_cache`],
  ["unauthenticated requests get 401 without a redirect", `chttpd_auth: authentication_redirect`],
  ["verified passwords are not cached", `couch_passwords_cache`],
  ["`_db_updates` is read from the store", `global_changes`],
  ["there are no virtual hosts; a proxy can rewrite paths", `vhosts`],
  [
    "Node.js's defaults apply, restricted by `ciphers` and `tls_versions`",
    `ssl: ecc_curves signature_algs`,
  ],
  ["jobs build the indexes of `_find`", `indexers`],
  ["Content-Security-Policy is CouchDB's default", `csp`],
  ["each node caches compiled functions that are in use", `ddoc_cache`],
  ["functions run in threads of the node", `query_server_config`],
  ["the memory of a function is limited to a fixed size", `quickjs`],
  [
    "`_find` returns 25 documents by default, and warns after reading more than 10 per result",
    `mango`,
  ],
  ["free slots are filled immediately", `replicator: max_acceptors`],
  ["`_replicator` always exists", `replicator: create_replicator_db`],
  ["only completed and failed are written to documents (RFC 016)", `replicator: update_docs`],
  [
    "nodes start jobs without waiting for other nodes",
    `replicator: cluster_start_period cluster_quiet_period`,
  ],
  [
    "Erlang's sockets and client are not used",
    `replicator: socket_options valid_socket_options ibrowse_options valid_ibrowse_options`,
  ],
  ["changed files are reloaded within ten seconds", `replicator: cacert_reload_interval_hours`],
  ["it does not change the order of jobs", `replicator: priority_coeff`],
  [
    "the log goes to standard error",
    `log: max_message_size strip_last_msg filter_fields writer file write_buffer write_delay
    syslog_host syslog_port syslog_appid syslog_facility syslog_enterprise_number include_sasl
    report_level`,
  ],
  ["statistics are updated immediately", `stats`],
  ["there is nothing to compact", `smoosh*`],
  ["the store schedules its own reads and writes", `ioq*`],
  ["`/_node/_local/_prometheus` is served on the API's port only", `prometheus`],
  ["writes are refused automatically when the disk is full", `disk_monitor`],
  [
    "there is no database scanner; old deleted documents are purged every ten minutes",
    `couch_scanner*; couch_quickjs_scanner_plugin*; couch_auto_purge_plugin*`,
  ],
];

export const INEFFECTIVE_SETTINGS: readonly IneffectiveSettings[] = INEFFECTIVE.flatMap(
  ([why, settings]) =>
    settings.split(";").map((text) => {
      const [section = "", keys] = text.split(":").map((part) => part.trim());
      return { section, why, ...(keys === undefined ? {} : { keys: keys.split(/\s+/) }) };
    }),
);

/** Sections whose keys are chosen by users. */
export const FREE_SECTIONS: readonly string[] = [
  "admins",
  "identities",
  SKIPPED_DATABASES_SECTION,
  "jwt_keys",
  "replicator.shares",
  "feature_flags",
  "vendor",
];

/**
 * Settings that would be dangerous to ignore. Each accepts only the value that matches the actual
 * behaviour.
 */
export const REFUSED_SETTINGS: readonly Setting<unknown>[] = [
  fixed("chttpd_auth", "authentication_db", "_users", "users are looked up in this database only"),
  fixed(
    "couch_httpd_auth",
    "authentication_db",
    "_users",
    "users are looked up in this database only",
  ),
  fixed("couchdb", "users_db_suffix", "_users", "users are looked up in this database only"),
  fixed(
    "couchdb",
    "enable_database_recovery",
    "false",
    "a database that is deleted cannot be recovered",
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
