/** The HTTP status of a refusal that came without one: as a row of `_bulk_docs`, or from our own store. */
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

/** CouchDB's status for an error of this name; undefined when it has none. */
export function refusalStatus(error: string): number | undefined {
  if (error.startsWith("STORE_") && STATUSES[error] === undefined) return 400;
  return Object.hasOwn(STATUSES, error) ? STATUSES[error] : undefined;
}
