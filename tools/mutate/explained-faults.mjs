/**
 * Faults without a visible effect, or with an effect that no test can notice. Each fault is
 * identified by the excerpt that it changes, as in `named-faults.mjs`.
 */
export const EXPLAINED_FAULTS = [
  {
    path: "src/protocol/normalize-selector.ts",
    text: 'if (["$and", "$or", "$nor"].includes(name) && Array.isArray(value)) {',
    replacement: 'if (["$and", "$or", "$nor"].includes(name)) {',
    reason: "malformed selectors are refused before they are normalized",
  },
  {
    path: "src/protocol/normalize-selector.ts",
    text: 'if (name === "$and" && Array.isArray(item)) return',
    replacement: 'if (name === "$and") return',
    reason: "malformed selectors are refused before they are normalized",
  },
  {
    path: "src/host/http/undici-fetch.ts",
    text: "error instanceof Error && error.cause !== undefined",
    replacement: "error.cause !== undefined",
    reason: "everything thrown here is an Error",
  },
  {
    path: "src/server/secrets/rotation.ts",
    text: "renewed?.renewedCount ?? 0;",
    replacement: "renewed?.renewedCount ?? 1;",
    reason: "the count of a deleted database is only a progress figure",
  },
  {
    path: "src/indexes/index-key.ts",
    text: "(texts?.length ?? 0) - textsBefore < lengthMax",
    replacement: "(texts?.length ?? 0) + textsBefore < lengthMax",
    reason: "the value is read from its document instead of from the index",
  },
  {
    path: "src/replicator/credential-replacements.ts",
    text: 'job.state === "pending" && !control.isPaused',
    replacement: "!control.isPaused",
    reason: "the conditions around it exclude running and ended jobs",
  },
  {
    path: "src/api/documents/bulk-get.ts",
    text: 'if (result.kind === "found") length +=',
    replacement: "if (false) length +=",
    reason: "the length is an estimate for the next page",
  },
  {
    path: "src/replicator/nodes/cluster-endpoints.ts",
    text: "right.endpoint.host ? -1 : 1)",
    replacement: "right.endpoint.host ? -1 : 2)",
    reason: "only the sign of a comparison matters",
  },
  {
    path: "src/indexes/indexes.ts",
    text: "if (compareBytes(begin, end) >= 0) return",
    replacement: "if (compareBytes(begin, end) > 0) return",
    reason: "reading an empty range finds nothing",
  },
  {
    path: "src/indexes/indexes.ts",
    text: "if (old === undefined ? marked === undefined : marked && equalBytes(old, marked)) continue;",
    replacement: "if (false) continue;",
    reason: "an unchanged entry is written again with the same value",
  },
  {
    path: "src/jobs/worker-ring.ts",
    text: "id > this.#self)",
    replacement: "id >= this.#self)",
    reason: "the worker's own id has been removed from the list",
  },
  {
    path: "src/host/foundationdb/transaction.ts",
    text: "Math.max(1, limit)",
    replacement: "Math.min(1, limit)",
    reason: "only tests against a FoundationDB cluster run it",
  },
  {
    path: "src/kv/tuple.ts",
    text: "index = start; index < end; index++",
    replacement: "index = start; index <= end; index++",
    reason: "a typed array ignores writes past its end",
  },
  {
    path: "src/kv/tuple.ts",
    text: "while (end >= 0 &&",
    replacement: "while (end >= 1 &&",
    reason: "a zero byte is never first, because the type of the item precedes it",
  },
  {
    path: "src/kv/tuple.ts",
    text: "if (end < 0 ||",
    replacement: "if (end < 1 ||",
    reason: "a zero byte is never first, because the type of the item precedes it",
  },
  {
    path: "src/replicator/copying/copy-batch.ts",
    text: "id.length * 3 > documentIdBytesMax",
    replacement: "id.length * 4 > documentIdBytesMax",
    reason: "the exact length is compared afterwards",
  },
  {
    path: "src/replicator/job-lists/index-tail.ts",
    text: "if (foldedId <= this.#afterId) return;",
    replacement: "if (foldedId < this.#afterId) return;",
    reason: "it filters the same events again",
  },
  {
    path: "src/host/system/garbage-collection.ts",
    text: "if (list.getEntries().some(isMajor)) setGrowth();",
    replacement: "if (false) setGrowth();",
    reason: "the growth of the heap between collections affects only speed",
  },
  {
    path: "src/api/http/compressed-responses.ts",
    text: "if (bytes.length < BYTES_MIN) return response;",
    replacement: "if (bytes.length <= BYTES_MIN) return response;",
    reason: "the length worth compressing is an estimate",
  },
  {
    path: "src/host/lmdb/environment.ts",
    text: 'linkSync(copy, file);\n  } catch (error) {\n    // EEXIST: another process might have created the store.\n    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;',
    replacement:
      "linkSync(copy, file);\n  } catch (error) {\n    // EEXIST: another process might have created the store.\n    if (false) throw error;",
    reason: "only a disk or file system that refuses the copy or the hard link runs it",
  },
  {
    path: "src/base/bytes.ts",
    text: "if (platform.latin1Slice !== undefined) return",
    replacement: "if (false) return",
    reason: "the fallback returns the same string more slowly",
  },
  {
    path: "src/api/queries/find.ts",
    text: "const document = documents.get(id);\n      if (document === undefined) return [];",
    replacement: "const document = documents.get(id);\n      if (false) return [];",
    reason: "an index entry and its document change in one transaction, so the document exists",
  },
  {
    path: "src/dashboard/app.tsx",
    text: '<main id="main" tabIndex={-1}>',
    replacement: '<main id="main" tabIndex={-2}>',
    reason: "every negative number removes an element from the tab order",
  },
  {
    path: "src/api/documents/bulk-get.ts",
    text: "this.#writer.length >= PIECE_LENGTH;",
    replacement: "this.#writer.length > PIECE_LENGTH;",
    reason: "the boundaries of pieces are not visible to the client",
  },
  {
    path: "src/host/http/connections.ts",
    text: "if (this.#largest > 0 && !this.#byCount",
    replacement: "if (!this.#byCount",
    reason: "without connections the maximum becomes -1, and the next connection raises it to 1",
  },
  {
    path: "src/indexes/indexes.ts",
    text: "if (this.#sets.size > CACHED_SETS_MAX) {",
    replacement: "if (false) {",
    reason: "a cache without a limit only uses more memory",
  },
  {
    path: "src/kv/key-value-store.ts",
    text: "if (this.#givenUp !== undefined) throw this.#givenUp.reason;",
    replacement: "if (this.#givenUp !== undefined) ;",
    reason: "a cancelled run rejects in its pause before another attempt begins",
  },
];
