/** Revisions in text form: `generation-hash`. */

export interface ParsedRevision {
  readonly generation: number;
  readonly hash: string;
}

/** CouchDB parses the generation as Erlang does and stores `+01-a` as `1-a`. */
const REVISION = /^\+?0*[0-9]{1,15}-/;

/** Returns the parts of a revision, or `undefined` if `text` is not a revision. */
export function parseRevision(text: string): ParsedRevision | undefined {
  if (!REVISION.test(text)) return undefined;
  const dash = text.indexOf("-");
  return { generation: Number(text.slice(0, dash)), hash: text.slice(dash + 1) };
}

export function formatRevision(generation: number, hash: string): string {
  return `${generation}-${hash}`;
}
