/** `tandem replicate --all`: copies all databases of a server once, in this process. */
import { forEachConcurrent } from "../../base/index.ts";
import { type Connections, type OwnRun, openOwnRun } from "../../library/index.ts";
import {
  describeFailure,
  isSameSecurity,
  MemoryRunFailures,
  StopRequest,
} from "../../replicator/index.ts";
import { counted } from "../terminal/counted.ts";
import { reportError } from "../terminal/describe-error.ts";
import { Progress } from "../terminal/progress.ts";
import { onStopSignal } from "../terminal/stop-signals.ts";
import { printable } from "../terminal/table.ts";
import {
  type AllFlags,
  type ChosenDatabase,
  chooseDatabases,
  refuseWithAll,
} from "./all-databases.ts";
import { type ConnectionFlags, openConnections } from "./command-connections.ts";
import { type AuthFiles, loginAdvice, sidesOf, withLoginAdvice } from "./endpoint-credentials.ts";

/** Number of databases copied concurrently. */
const AT_ONCE_MAX = 4;
const DRAW_INTERVAL_MS = 100;
const KEPT_SECURITY =
  "the target existed before and keeps its own security object; --overwrite-security replaces it";
/**
 * Options rejected with `--all`: they select documents of one database, or make the command run
 * indefinitely.
 */
const OF_ONE = ["continuous", "selector", "docIds", "filter", "since"];

type ReplicateAllFlags = AllFlags & AuthFiles & ConnectionFlags;

/** A database that was not copied completely. */
interface Remainder {
  readonly database: string;
  readonly error: string;
  readonly reason: string;
}

export async function replicateAll(
  source: string,
  target: string,
  flags: ReplicateAllFlags,
): Promise<void> {
  const asJson = flags.json === true;
  const connections = openConnections(flags);
  const sides = sidesOf(source, target, flags);
  const stopping = new AbortController();
  const stop = (): void => stopping.abort(new StopRequest());
  onStopSignal(stop);
  try {
    refuseWithAll({ ...flags }, OF_ONE);
    const { chosen } = await chooseDatabases(connections, sides, flags, stopping.signal);
    const round = new Round(connections, stopping.signal);
    await showing(round, chosen, asJson);
    process.stdout.write(asJson ? `${JSON.stringify(round.result)}\n` : round.text);
    const advice = asJson ? "" : await loginAdvice(round.refusals, sides);
    if (advice !== "") process.stderr.write(`tandem: ${printable(advice)}\n`);
    if (stopping.signal.aborted && !asJson) {
      process.stderr.write("stopped; run the same command again to continue\n");
    }
    process.exitCode = round.result.ok ? 0 : 1;
  } catch (error) {
    reportError(await withLoginAdvice(error, sides));
  } finally {
    await connections.close();
  }
}

class Round {
  readonly #connections: Connections;
  readonly #signal: AbortSignal;
  readonly #remainders: Remainder[] = [];
  #writtenCount = 0;
  doneCount = 0;

  constructor(connections: Connections, signal: AbortSignal) {
    this.#connections = connections;
    this.#signal = signal;
  }

  /** Copies a database. A failure does not affect the other databases. */
  async copy(database: ChosenDatabase): Promise<void> {
    if (this.#signal.aborted) return;
    const remainder = await this.#copy(database).catch((error: unknown) => describeFailure(error));
    this.doneCount++;
    if (remainder !== undefined) this.#remainders.push({ database: database.name, ...remainder });
  }

  get result() {
    const isWhole = this.#remainders.length === 0 && !this.#signal.aborted;
    return {
      ok: isWhole,
      databases: this.doneCount,
      docs_written: this.#writtenCount,
      not_whole: this.#remainders,
    };
  }

  /** Reasons why logins were rejected. */
  get refusals(): string {
    const rejected = this.#remainders.filter(({ error }) => error === "unauthorized");
    return rejected.map(({ reason }) => reason).join("\n");
  }

  get text(): string {
    const lines = this.#remainders.map(
      ({ database, error, reason }) => `  ${printable(`${database}: ${error}: ${reason}`)}\n`,
    );
    const sum = `${counted(this.doneCount, "database")}, ${counted(this.#writtenCount, "document")} written`;
    const rest =
      lines.length === 0
        ? ""
        : `; ${counted(lines.length, "database is", "databases are")} incomplete:`;
    return `${sum}${rest}\n${lines.join("")}`;
  }

  async #copy(database: ChosenDatabase): Promise<Omit<Remainder, "database"> | undefined> {
    if (database.kind === "invalid") return { error: "invalid_name", reason: database.reason };
    const failures = new MemoryRunFailures();
    const { replication } = database;
    const shell = await openOwnRun(
      { connections: this.#connections, failures },
      replication,
      this.#signal,
    );
    const { run } = shell;
    try {
      const { kind } = await run.run(this.#signal);
      if (kind === "stopped") return { error: "stopped", reason: "it was interrupted" };
    } finally {
      this.#writtenCount += run.ownStatistics.docsWritten;
    }
    const { length: count } = failures.failures;
    if (count > 0) {
      return { error: "left_behind", reason: `${counted(count, "revision")} not copied` };
    }
    if (replication.copiesSecurity !== true || (await this.#isSameSecurity(shell)))
      return undefined;
    return { error: "security", reason: KEPT_SECURITY };
  }

  async #isSameSecurity({ source, target }: OwnRun): Promise<boolean> {
    const [wanted, actual] = await Promise.all(
      [source, target].map((endpoint) => endpoint.security(this.#signal)),
    );
    return wanted !== undefined && actual !== undefined && isSameSecurity(wanted, actual);
  }
}

async function showing(
  round: Round,
  databases: readonly ChosenDatabase[],
  asJson: boolean,
): Promise<void> {
  const copyAll = () => forEachConcurrent(databases, AT_ONCE_MAX, (one) => round.copy(one));
  if (asJson) return copyAll();
  const progress = new Progress("copying", process.stderr, "databases");
  const timer = setInterval(
    () => progress.show(round.doneCount, databases.length),
    DRAW_INTERVAL_MS,
  );
  try {
    await copyAll();
  } finally {
    clearInterval(timer);
    progress.end(round.doneCount, databases.length);
  }
}
