/** The seals of a database's bodies, each bound to its revision. */
import type { Seal } from "../../base/index.ts";
import { formatRevision, type RevisionParts } from "../revisions/revision.ts";
import type { BodySeal } from "./body-record.ts";

/** Returns the seal of a revision's body, or `undefined` if the database stores bodies unsealed. */
export type BodySealOf = (id: string, revision: RevisionParts) => BodySeal | undefined;

export const unsealed: BodySealOf = () => undefined;

/** Returns the function that seals the bodies of one database. */
export function bodySeals(seal: Seal | undefined, uuid: string): BodySealOf {
  if (seal === undefined) return unsealed;
  return (id, revision) => ({
    seal,
    place: JSON.stringify(["body", uuid, id, formatRevision(revision)]),
  });
}
