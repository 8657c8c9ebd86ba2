/** `tandem verify`: compares a copy with its source, and repairs it with `--repair`. */
import {
  BatchCopier,
  type Comparison,
  type ComparisonObserver,
  compareDatabases,
  type Difference,
  describeDifference,
  MemoryRunFailures,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
} from "../replicator/index.ts";
import { VERSION } from "../server/index.ts";
import { openConnections } from "./connections.ts";
import { reportError, retryReporter } from "./describe-error.ts";

interface VerifyFlags {
  readonly repair?: boolean;
  readonly json?: boolean;
}

export async function verify(source: string, target: string, flags: VerifyFlags): Promise<void> {
  const connections = openConnections({
    userAgent: `Tandem/${VERSION}`,
    ...(flags.json === true ? {} : { onRetry: retryReporter() }),
  });
  const { signal } = new AbortController();
  const write = flags.json === true ? writeJson : writeText;
  try {
    const replication = parseReplication({ source, target });
    const sides = {
      source: connections.open(replication, "source"),
      target: connections.open(replication, "target"),
    };
    const failures = new MemoryRunFailures();
    const { options } = replication;
    const { runtime } = connections;
    const { copyLimits } = REPLICATOR_CONFIG_DEFAULT;
    const batchCopier = new BatchCopier(
      { runtime, ...sides, options, copyLimits },
      {
        count: () => {},
        failures,
      },
    );
    let repairedCount = 0;
    let attachmentCount = 0;
    const observer: ComparisonObserver = {
      difference: (difference) => {
        write({ difference });
        if (difference.attachment !== undefined) attachmentCount++;
      },
      // What is only on the target stays: it may be wanted there.
      lacking: async (documents, repairSignal) => {
        if (flags.repair !== true) return;
        await batchCopier.tryOnce(documents, repairSignal);
        repairedCount += documents.length;
      },
    };
    let comparison = await compareDatabases(sides.source, sides.target, signal, observer);
    if (flags.repair === true && attachmentCount > 0) {
      write({ notRepaired: { attachmentCount, reason: SAME_REVISION } });
    }
    if (repairedCount > 0) {
      write({ comparison });
      write({ repaired: { documentCount: repairedCount, failures: failures.failures } });
      comparison = await compareDatabases(sides.source, sides.target, signal, {
        difference: (difference) => write({ difference }),
      });
    }
    write({ comparison });
    process.exitCode = comparison.differenceCount === 0 ? 0 : 1;
  } catch (error) {
    reportError(error);
  } finally {
    await connections.close();
  }
}

/** No write changes an existing revision (`new_edits: false` ignores it), so an operator has to decide about these. */
const SAME_REVISION =
  "both sides have the revision, and a revision is written once: attach the bytes again at the source and replicate, or purge the revision at the target (POST /{db}/_purge) and repair again";

/** What there is to say, in the order in which it is known: differences as they are found. */
type Finding =
  | { readonly difference: Difference }
  | { readonly comparison: Comparison }
  | { readonly notRepaired: { readonly attachmentCount: number; readonly reason: string } }
  | {
      readonly repaired: {
        readonly documentCount: number;
        readonly failures: MemoryRunFailures["failures"];
      };
    };

/** One object a line. */
function writeJson(finding: Finding): void {
  process.stdout.write(`${JSON.stringify(finding)}\n`);
}

function writeText(finding: Finding): void {
  if ("difference" in finding) {
    process.stdout.write(`  ${describeDifference(finding.difference)}\n`);
  } else if ("comparison" in finding) process.stdout.write(describe(finding.comparison));
  else if ("notRepaired" in finding) {
    const { attachmentCount, reason } = finding.notRepaired;
    process.stdout.write(`${attachmentCount} attachments differ and stay as they are: ${reason}\n`);
  } else process.stdout.write(`${finding.repaired.documentCount} documents copied again\n`);
}

/** What was compared, and whether it differs. */
export function describe(comparison: Comparison): string {
  const { documentCount, leafCount, attachmentCount, differenceCount } = comparison;
  const compared = `${documentCount} documents, ${leafCount} leaf revisions, ${attachmentCount} attachments compared`;
  return `${compared}: ${differenceCount === 0 ? "the same on both sides" : `${differenceCount} differences`}\n`;
}
