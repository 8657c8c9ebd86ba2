/** Labels of form fields by the document or rule member that they set. */
import { DOCUMENT_OPTIONS } from "../../contract/index.ts";

const LABELS: ReadonlyMap<string, string> = new Map([
  ["source", "Source address"],
  ["target", "Target address"],
  ["create_target", "Create the target if it does not exist"],
  ["continuous", "Continuous"],
  ["doc_ids", "Document ids (one per line)"],
  ["selector", "Selector (JSON)"],
  ["filter", "Filter function"],
  ["query_params", "Filter parameters (JSON)"],
  ["winning_revs_only", "Winning revisions only"],
  ["deleted", "Skip deletions"],
  ["documents", "Maximum document size (bytes)"],
  ["attachments", "Maximum attachment size (bytes)"],
  ["since_seq", "Start after (sequence or time)"],
  ["schedule", "Schedule"],
  ["after", "Starts after"],
  ["pair", "Both directions"],
  ["tags", "Tags (name:value)"],
  ["run_on", "Required node labels"],
  ["databases", "Databases"],
  ["except", "Except"],
  ["design_documents", "Copy design documents"],
  ["security", "Security objects"],
  ["concurrency", "Concurrent jobs"],
  ["delete", "When a source database is deleted"],
  ...DOCUMENT_OPTIONS.map(({ name, label }) => [name, label] as const),
]);

/** Labels of fields whose member name is not shown as a hint. */
const OTHER_LABELS: ReadonlyMap<string, string> = new Map([
  ["id", "Id"],
  ["name", "Name"],
  ["database", "Database"],
  ["source.auth", "Source login"],
  ["target.auth", "Target login"],
  ...["source", "target"].flatMap((side) => [
    [`${side}.auth.oauth2.token_url`, "Token URL"] as const,
    [`${side}.auth.oauth2.client_id`, "Client id"] as const,
    [`${side}.auth.oauth2.scope`, "Scope"] as const,
  ]),
]);

export function labelOf(field: string): string {
  return LABELS.get(field) ?? OTHER_LABELS.get(field) ?? field;
}

/**
 * Returns the member name, which is shown as a hint to users who know it from the API; `undefined`
 * if the label begins with that name.
 */
export function hintOf(field: string): string | undefined {
  const label = LABELS.get(field);
  return label === undefined || label.toLowerCase().startsWith(field) ? undefined : field;
}

/**
 * Returns the field mentioned in an error message of the node, such as "`source.url` must be a
 * string".
 */
export function fieldNamed(message: string): string | undefined {
  const [, path = ""] = /`([^`]+)`/.exec(message) ?? [];
  for (let prefix = path; prefix !== ""; prefix = prefix.replace(/(^|[.[])[^.[]*$/, "")) {
    const name = prefix.replace(/^options\./, "");
    if (LABELS.has(name) || OTHER_LABELS.has(name)) return name;
  }
  return undefined;
}
