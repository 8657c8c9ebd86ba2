/** `run_on`: labels that a node must have to run a job. */
import {
  isLabel,
  LABEL_RULE,
  type Labels,
  labelSet,
  NO_LABELS,
  REQUIRED_LABELS_MAX,
} from "../../jobs/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { ReplicationInvalidError, shown } from "./parse-fields.ts";
import type { Replication } from "./replication.ts";

/**
 * Returns the labels in a document, body or rule; undefined if any node may run the job. Throws a
 * ReplicationInvalidError.
 */
export function parseRunOn(given: unknown): Labels | undefined {
  if (given === undefined || given === null) return undefined;
  if (!Array.isArray(given)) {
    throw new ReplicationInvalidError(
      `\`run_on\` must be a list of labels such as ["site:berlin"], but is ${shown(given)}`,
    );
  }
  if (given.length > REQUIRED_LABELS_MAX) {
    throw new ReplicationInvalidError(
      `\`run_on\` must have at most ${REQUIRED_LABELS_MAX} labels, but has ${given.length}`,
    );
  }
  for (const [index, label] of given.entries()) {
    if (isLabel(label)) continue;
    throw new ReplicationInvalidError(
      `\`run_on[${index}]\` must be a label of ${LABEL_RULE}, but is ${shown(label)}`,
    );
  }
  return given.length === 0 ? undefined : labelSet(given as readonly string[]);
}

/** Whether the store's format includes `run_on`, `after` and `pair`. */
export type HasPlacement = (tx: ReadTransaction) => Promise<boolean>;

/**
 * Throws a ReplicationInvalidError for `run_on`, `after` or `pair` while nodes of an older version
 * might share the store: these nodes would ignore the members.
 */
export async function checkFormat(
  tx: ReadTransaction,
  { runOn = NO_LABELS, after = [], pair }: Pick<Replication, "runOn" | "after" | "pair">,
  hasPlacement: HasPlacement,
): Promise<void> {
  const given = [runOn.length > 0 && "run_on", after.length > 0 && "after", pair && "pair"];
  const name = given.find((one) => one !== false && one !== undefined);
  if (name === undefined || (await hasPlacement(tx))) return;
  throw new ReplicationInvalidError(
    `\`${name}\` requires a newer format of the store; run \`tandem upgrade --enable\` once all nodes have this version`,
  );
}

/** Returns the reason shown for a job that waits because no node may run it. */
export function noNodeReason(labels: Labels): string {
  const named = labels.length === 1 ? "the label" : "all of the labels";
  return `No running node has ${named} ${labels.join(", ")}; add them to [tandem] labels of a node and restart it, or change \`run_on\``;
}
