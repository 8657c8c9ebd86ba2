/** Revisions as text: `generation-hash`. */

export interface ParsedRevision {
  readonly generation: number;
  readonly hash: string;
}

/** The parts of a revision, or undefined when `text` is none. */
export function parseRevision(text: string): ParsedRevision | undefined {
  const match = /^(0|[1-9][0-9]{0,8})-(.+)$/s.exec(text);
  if (match === null) return undefined;
  return { generation: Number(match[1]), hash: match[2] as string };
}

export function formatRevision(generation: number, hash: string): string {
  return `${generation}-${hash}`;
}
