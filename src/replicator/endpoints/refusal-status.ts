/** Interprets the HTTP statuses of responses about documents. */

/**
 * Statuses that say nothing about the requested document: the database is gone, or the request
 * should be repeated later.
 */
const NOT_ABOUT_DOCUMENTS: ReadonlySet<number> = new Set([404, 405, 408, 429]);

/**
 * HTTP statuses by error name, for rejections without a status: rows of `_bulk_docs`, and errors of
 * our own store.
 */
const STATUSES: Readonly<Record<string, number>> = {
  bad_request: 400,
  doc_validation: 400,
  illegal_docid: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  missing_stub: 412,
  document_too_large: 413,
  attachment_too_large: 413,
  request_entity_too_large: 413,
  too_large: 413,
  STORE_DOCUMENT_TOO_LARGE: 413,
  KV_TOO_LARGE: 413,
  bad_content_type: 415,
  bad_ctype: 415,
  unsupported_media_type: 415,
  internal_server_error: 500,
  service_unavailable: 503,
  timeout: 503,
};

/** Returns CouchDB's status for an error with this name, if it has one. */
export function refusalStatus(error: string): number | undefined {
  if (error.startsWith("STORE_") && STATUSES[error] === undefined) return 400;
  return Object.hasOwn(STATUSES, error) ? STATUSES[error] : undefined;
}

/**
 * Whether a response with this status might be due to the requested document, so that a request for
 * another document could get a different response.
 */
export function mayConcernDocument(status: number): boolean {
  // Success statuses are included, because unexpected responses can have them, for example if a
  // proxy has rewritten the path.
  const isAnswered = status >= 200 && (status < 300 || status >= 400);
  return isAnswered && !NOT_ABOUT_DOCUMENTS.has(status);
}
