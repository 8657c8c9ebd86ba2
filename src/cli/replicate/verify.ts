/**
 * `tandem verify`: compares a copy with its source, or all databases of two servers, and repairs
 * differences with `--repair`.
 */
import { type ComparisonFinding, type Connections, compareSides } from "../../library/index.ts";
import {
  type Comparison,
  describeDifference,
  describeFailure,
  isMissing,
  isSameSecurity,
  parseReplication,
  type Replication,
  type ReplicationFailure,
} from "../../replicator/index.ts";
import { counted } from "../terminal/counted.ts";
import { reportError } from "../terminal/describe-error.ts";
import { printable } from "../terminal/table.ts";
import {
  type AllFlags,
  type ChosenDatabase,
  chooseDatabases,
  refuseWithoutAll,
} from "./all-databases.ts";
import { type ConnectionFlags, openConnections } from "./command-connections.ts";
import {
  type AuthFiles,
  checkUrls,
  type GivenSides,
  sidesOf,
  withCredentials,
  withLoginAdvice,
} from "./endpoint-credentials.ts";
import { leftBehind } from "./left-behind.ts";

interface VerifyFlags extends AllFlags, AuthFiles, ConnectionFlags {
  readonly repair?: boolean;
}

export async function verify(source: string, target: string, flags: VerifyFlags): Promise<void> {
  await withComparer(flags, source, target, async (comparer, sides) => {
    refuseWithoutAll(flags);
    checkUrls({ SOURCE: source, TARGET: target });
    const comparison = await comparer.compare(
      parseReplication({ ...(await withCredentials(sides)) }),
    );
    return comparison.differenceCount;
  });
}

/** Compares all databases of two servers. */
export async function verifyAll(source: string, target: string, flags: VerifyFlags): Promise<void> {
  await withComparer(flags, source, target, async (comparer, sides) => {
    const { signal } = comparer;
    const listed = await chooseDatabases(comparer.connections, sides, flags, signal);
    let differingCount = 0;
    for (const database of listed.chosen) {
      comparer.write({ database: database.name });
      if (!(await comparer.isSameDatabase(database))) differingCount++;
    }
    // A database that exists only on the target does not count as a difference, since a copy can
    // outlive its source.
    for (const onlyAtTarget of listed.onlyAtTarget) comparer.write({ onlyAtTarget });
    const databaseCount = listed.chosen.length;
    comparer.write({ servers: { databaseCount, differingCount } });
    return differingCount;
  });
}

/**
 * Runs `work`. Sets exit code 1 if `work` finds differences, or the error's exit code if it throws.
 */
async function withComparer(
  flags: VerifyFlags,
  source: string,
  target: string,
  work: (comparer: Comparer, sides: GivenSides) => Promise<number>,
): Promise<void> {
  const connections = openConnections(flags);
  const sides = sidesOf(source, target, flags);
  try {
    const differenceCount = await work(new Comparer(connections, flags), sides);
    process.exitCode = differenceCount === 0 ? 0 : 1;
  } catch (error) {
    reportError(await withLoginAdvice(error, sides));
  } finally {
    await connections.close();
  }
}

class Comparer {
  readonly connections: Connections;
  readonly signal = new AbortController().signal;
  readonly write: (finding: Finding) => void;
  readonly #isRepairing: boolean;

  constructor(connections: Connections, { json, repair }: VerifyFlags) {
    this.connections = connections;
    this.write = json === true ? writeJson : writeText;
    this.#isRepairing = repair === true;
  }

  /** Compares one database of a server. If it cannot be compared, it counts as different. */
  async isSameDatabase(database: ChosenDatabase): Promise<boolean> {
    if (database.kind === "invalid") {
      this.write({ failure: { error: "invalid_name", reason: database.reason } });
      return false;
    }
    try {
      if (!(await this.#hasTarget(database.replication))) {
        this.write({ failure: MISSING_AT_TARGET });
        return false;
      }
      const { differenceCount } = await this.compare(database.replication);
      return (await this.#isSameSecurity(database.replication)) && differenceCount === 0;
    } catch (error) {
      this.write({ failure: describeFailure(error) });
      return false;
    }
  }

  /**
   * Returns whether the target exists. With `--repair`, a missing target is created. If security
   * objects are compared, the security object is set before any document is copied.
   */
  async #hasTarget(replication: Replication): Promise<boolean> {
    const { connections, signal } = this;
    const target = connections.open(replication, "target");
    try {
      await target.info(signal);
      return true;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    if (!this.#isRepairing) return false;
    const source = connections.open(replication, "source");
    // No target is created for a missing source.
    await source.info(signal);
    await target.create(replication.createTargetParameters, signal);
    await target.info(signal);
    if (replication.copiesSecurity === true) {
      await target.setSecurity(await source.security(signal), signal);
    }
    return true;
  }

  async #isSameSecurity(replication: Replication): Promise<boolean> {
    if (replication.copiesSecurity !== true) return true;
    const [one, other] = await Promise.all(
      (["source", "target"] as const).map((side) =>
        this.connections.open(replication, side).security(this.signal),
      ),
    );
    if (one !== undefined && other !== undefined && isSameSecurity(one, other)) return true;
    const reason = "the security objects differ";
    this.write({ failure: { error: "security", reason } });
    return false;
  }

  compare(replication: Replication): Promise<Comparison> {
    const { write, signal, connections } = this;
    const sides = {
      source: connections.open(replication, "source"),
      target: connections.open(replication, "target"),
      options: replication.options,
    };
    return compareSides(connections, sides, { repairs: this.#isRepairing, write }, signal);
  }
}

const MISSING_AT_TARGET: ReplicationFailure = {
  error: "db_not_found",
  reason: "missing at the target; use --repair or `tandem replicate --all` to create it",
};

/** A result of the comparison, printed when it is found. */
type Finding =
  | { readonly database: string }
  | { readonly onlyAtTarget: string }
  | { readonly failure: ReplicationFailure }
  | { readonly servers: { readonly databaseCount: number; readonly differingCount: number } }
  | ComparisonFinding;

/** Prints one JSON object per line. */
function writeJson(finding: Finding): void {
  process.stdout.write(`${JSON.stringify(finding)}\n`);
}

function writeText(finding: Finding): void {
  if ("database" in finding) process.stdout.write(`${printable(finding.database)}: `);
  else if ("onlyAtTarget" in finding) {
    process.stdout.write(`${printable(finding.onlyAtTarget)}: only at the target\n`);
  } else if ("failure" in finding) {
    const { error, reason } = finding.failure;
    process.stdout.write(`${printable(`${error}: ${reason}`)}\n`);
  } else if ("servers" in finding) {
    const { databaseCount, differingCount } = finding.servers;
    const outcome =
      differingCount === 0 ? "no differences" : counted(differingCount, "differs", "differ");
    process.stdout.write(`${counted(databaseCount, "database")} compared: ${outcome}\n`);
  } else if ("difference" in finding) {
    process.stdout.write(`  ${printable(describeDifference(finding.difference))}\n`);
  } else if ("comparison" in finding) process.stdout.write(describe(finding.comparison));
  else if ("notRepaired" in finding) {
    const { attachmentCount, reason } = finding.notRepaired;
    const differing = counted(
      attachmentCount,
      "attachment differs and cannot be repaired",
      "attachments differ and cannot be repaired",
    );
    process.stdout.write(`${differing}: ${reason}\n`);
  } else {
    const { documentCount, failures } = finding.repaired;
    process.stdout.write(`${counted(documentCount, "document")} copied again\n`);
    process.stdout.write(leftBehind(failures));
  }
}

/** Summary of a comparison: the numbers of compared items, and of differences. */
export function describe(comparison: Comparison): string {
  const { documentCount, leafCount, attachmentCount, differenceCount } = comparison;
  const compared = `${counted(documentCount, "document")}, ${counted(leafCount, "leaf revision")}, ${counted(attachmentCount, "attachment")} compared`;
  return `${compared}: ${differenceCount === 0 ? "no differences" : counted(differenceCount, "difference")}\n`;
}
