/** The description of a database in CouchDB's form. */
import type { DatabaseInfo } from "../../databases/index.ts";
import type { DatabaseParts } from "../api-parts.ts";

/** Returns the same members as CouchDB. Shard and file counts are always 1. */
export function infoView({ compaction }: DatabaseParts, info: DatabaseInfo): object {
  return {
    instance_start_time: info.instanceStartTime,
    db_name: info.name,
    purge_seq: String(info.purgeCount),
    update_seq: info.updateSequence,
    sizes: info.sizes,
    props: {},
    doc_del_count: info.deletedDocumentCount,
    doc_count: info.documentCount,
    disk_format_version: 8,
    compact_running: compaction.isRunning(info.name),
    cluster: { q: 1, n: 1, w: 1, r: 1 },
  };
}
