/** `tandem move …`: runs a step between two servers, and prints the outcome of each document. */
import { append } from "../../base/index.ts";
import { type Connections, openConnections } from "../../library/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { VERSION } from "../../server/index.ts";
import { systemCredentialSources } from "../server/credentials.ts";
import { openServer, parseServer, type ServerFlags } from "../server/server-client.ts";
import { counted } from "../terminal/counted.ts";
import { reportError, retryReporter } from "../terminal/describe-error.ts";
import { quoted } from "../terminal/quoted.ts";
import { printable, table } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import type { Uuids } from "./match-ids.ts";
import { type PlannedDocument, planPage } from "./plan.ts";
import { verifyMove } from "./progress.ts";
import { ReplicatorServer } from "./replicator-server.ts";
import { back, type Outcome, type Step, type StepParts, start, stop, take } from "./steps.ts";

export interface MoveFlags extends ServerFlags {
  readonly from: string;
  readonly database: readonly string[];
  readonly only?: readonly string[];
  readonly limit?: number;
  readonly anyway?: boolean;
  readonly takeUuid?: boolean;
}

const STEPS = { take, stop, start, verify: verifyMove, back } as const satisfies Record<
  string,
  Step
>;

export async function runPlan(flags: MoveFlags): Promise<void> {
  await withServers(flags, async (parts) => {
    const planned: PlannedDocument[] = [];
    for (const database of flags.database) {
      for await (const page of parts.from.pages(database)) {
        const chosen = page.filter(({ id }) => parts.only?.has(id) !== false);
        append(planned, await planPage(parts, database, chosen));
      }
    }
    const uuids = await parts.uuids();
    process.stdout.write(
      flags.json === true
        ? `${JSON.stringify({ uuids, documents: planned })}\n`
        : uuidLine(uuids) + planTable(planned),
    );
    return (
      uuids.here !== uuids.there ||
      planned.some(({ taking, match }) => taking.kind === "refused" || isLost(match))
    );
  });
}

export async function runStep(name: keyof typeof STEPS, flags: MoveFlags): Promise<void> {
  await withServers(flags, async (parts) => {
    if (name === "take") {
      const uuid = await prepareUuid(parts, flags);
      if (uuid !== "equal") {
        await explainUuid(parts, uuid, flags.json === true);
        return uuid === "different";
      }
    }
    const outcomes: Outcome[] = [];
    for (const database of flags.database) {
      for await (const outcome of STEPS[name](parts, database)) {
        outcomes.push(outcome);
        if (flags.json !== true) process.stdout.write(outcomeLine(outcome));
      }
    }
    if (flags.json === true) process.stdout.write(`${JSON.stringify({ documents: outcomes })}\n`);
    else process.stdout.write(summary(outcomes));
    return outcomes.some(({ isProblem }) => isProblem);
  });
}

/**
 * Runs `work` with clients for both servers. Sets exit code 1 if `work` reports problems, or the
 * error's exit code if `work` throws.
 */
async function withServers(
  flags: MoveFlags,
  work: (parts: StepParts) => Promise<boolean>,
): Promise<void> {
  const connections = openConnections({
    userAgent: `Tandem/${VERSION}`,
    ...(flags.json === true ? {} : { onRetry: retryReporter() }),
  });
  try {
    const { from, here } = await openServers(connections, flags);
    let uuids: Promise<Uuids> | undefined;
    const parts: StepParts = {
      from,
      here,
      connections,
      uuids: () => {
        uuids ??= readUuids(from, here);
        return uuids;
      },
      fromUrl: maskCredentials(new URL(flags.from).origin),
      only: flags.only && new Set(flags.only),
      limit: flags.limit ?? Number.POSITIVE_INFINITY,
      anyway: flags.anyway === true,
      signal: new AbortController().signal,
    };
    process.exitCode = (await work(parts)) ? 1 : 0;
  } catch (error) {
    reportError(error);
  } finally {
    await connections.close();
  }
}

/**
 * Opens clients for both servers. For the old server, `TANDEM_FROM_USER` and `TANDEM_FROM_PASSWORD`
 * take precedence over `TANDEM_USER` and `TANDEM_PASSWORD`.
 */
async function openServers(
  connections: Connections,
  flags: MoveFlags,
): Promise<{ readonly from: ReplicatorServer; readonly here: ReplicatorServer }> {
  const sources = systemCredentialSources();
  const { TANDEM_FROM_USER: user, TANDEM_FROM_PASSWORD: password } = process.env;
  const environment = user ? { TANDEM_USER: user, TANDEM_PASSWORD: password } : sources.environment;
  const prefixes = { used: user ? "TANDEM_FROM_" : "TANDEM_", best: "TANDEM_FROM_" };
  const old = parseServer(flags.from, "--from");
  const own = parseServer(flags.server);
  if (old.host === own.host) throw new WrongUse("--from and --server must name different servers");
  return {
    from: new ReplicatorServer(
      await openServer(connections, old, { ...sources, environment, prefixes }),
    ),
    here: new ReplicatorServer(await openServer(connections, own, sources)),
  };
}

async function readUuids(from: ReplicatorServer, here: ReplicatorServer): Promise<Uuids> {
  return { here: await here.uuid(), there: await from.uuid() };
}

/**
 * Compares the uuids of the two servers. If they differ, moved jobs start from the beginning. Sets
 * this server's uuid if the flags ask for it. Throws an Error if existing jobs of this server would
 * thereby lose their checkpoints.
 */
async function prepareUuid(
  { here, uuids }: StepParts,
  { takeUuid }: MoveFlags,
): Promise<"equal" | "set" | "different"> {
  const { here: own, there } = await uuids();
  if (own === there) return "equal";
  if (takeUuid !== true) return "different";
  const { total_rows: all } = await countJobs(here, "");
  const { total_rows: paused } = await countJobs(here, "&paused=true");
  if (all !== paused) {
    throw new Error(
      `${counted(all - paused, "job is", "jobs are")} not paused here and would lose all checkpoints if the uuid changed`,
    );
  }
  await here.ask("PUT", "/_node/_local/_config/couchdb/uuid", there);
  return "set";
}

async function explainUuid(
  { uuids, fromUrl }: StepParts,
  uuid: "set" | "different",
  isJson: boolean,
): Promise<void> {
  const { there } = await uuids();
  if (uuid === "different") process.stderr.write(uuidOptions(there, fromUrl));
  else if (isJson) process.stdout.write(`${JSON.stringify({ uuid: there, documents: [] })}\n`);
  else process.stdout.write(uuidSetText(there, fromUrl));
}

/** Instructions for giving this server the uuid of the old one. */
function uuidOptions(uuid: string, fromUrl: string): string {
  const lines = [
    "tandem: the servers have different uuids, so jobs would not find their checkpoints.",
    "Nothing was copied. Give this server the uuid of the old one:",
    "",
    "1. if this server has no jobs, or only paused ones:",
    `     tandem move take --take-uuid --from ${quoted(fromUrl)}`,
    "   otherwise, run this for each node (the jobs of this server then start from the beginning):",
    `     tandem config set couchdb uuid ${quoted(uuid)}`,
    "2. restart all nodes of this server",
    `3. tandem move take --from ${quoted(fromUrl)}`,
  ];
  return `${lines.map(printable).join("\n")}\n`;
}

function uuidSetText(uuid: string, fromUrl: string): string {
  const lines = [
    `this node will have the uuid ${uuid} after its next start; nothing has been copied yet.`,
    "Next steps:",
    "",
    `1. on each other node of this server: tandem config set couchdb uuid ${quoted(uuid)}`,
    "2. restart all nodes of this server",
    `3. tandem move take --from ${quoted(fromUrl)}`,
  ];
  return `${lines.map(printable).join("\n")}\n`;
}

async function countJobs(here: ReplicatorServer, filter: string): Promise<{ total_rows: number }> {
  return (await here.ask("GET", `/_tandem/jobs?limit=1${filter}`)) as { total_rows: number };
}

function isLost(match: PlannedDocument["match"]): boolean {
  return match === "uuid" || match === "other";
}

const MATCHES: Readonly<Record<PlannedDocument["match"], string>> = {
  same: "same id",
  older: "found under the old id",
  uuid: "lost: different uuid",
  other: "lost",
  unknown: "no replication id on the old server",
};

const TAKINGS = {
  take: "take",
  update: "take again",
  here: "here already",
  refused: "cannot move",
} as const;

export function planTable(planned: readonly PlannedDocument[]): string {
  if (planned.length === 0) return "there are no replication documents\n";
  const rows = planned.map(({ database, id, source, target, state, match, taking }) => [
    `${database}/${id}`,
    source,
    target,
    state ?? "-",
    MATCHES[match],
    TAKINGS[taking.kind],
  ]);
  const notes = planned.map(({ matchReason, taking }) => [
    taking.kind === "refused" ? taking.reason : (matchReason ?? ""),
  ]);
  const head = ["DOCUMENT", "FROM", "TO", "OLD STATE", "CHECKPOINTS", "STEP"];
  return table([head, ...rows], { soft: [1, 2], notes: [[], ...notes] });
}

function uuidLine({ here, there }: Uuids): string {
  if (here === there) return `both servers have the uuid ${there}\n`;
  const sentence = `the old server has the uuid ${there}, the new one ${here}; jobs would not find their checkpoints`;
  return `${printable(sentence)}\n`;
}

function outcomeLine({ database, id, outcome, reason }: Outcome): string {
  const why = reason === undefined ? "" : `: ${reason}`;
  return `${printable(`${database}/${id}: ${outcome}${why}`)}\n`;
}

/** Number of documents by outcome. */
export function summary(outcomes: readonly Outcome[]): string {
  const counts = new Map<string, number>();
  for (const { outcome } of outcomes) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  const texts = [...counts].map(([outcome, count]) => `${count} ${outcome}`);
  return `${texts.length === 0 ? "nothing to do" : texts.join(", ")}\n`;
}
