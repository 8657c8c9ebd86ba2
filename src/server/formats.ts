/**
 * Negotiation of the format in which a store is written (decision 321). When a node registers as a
 * worker, it announces the formats that its program supports. A node joins a store if its program
 * supports the stored format, and every writing transaction checks this again. A higher format is
 * enabled in a transaction that reads all registrations. If an older program registers
 * concurrently, the two transactions conflict.
 */
import { largest, OperationalError, type Runtime, smallest } from "../base/index.ts";
import type { UpgradeStatus } from "../contract/index.ts";
import { type Program, RENEWALS_PER_LEASE, type Worker, type Workers } from "../jobs/index.ts";
import {
  formatOf,
  KeyValueError,
  type KeyValueStore,
  type ReadTransaction,
  StoreFormat,
  type Transaction,
} from "../kv/index.ts";
import { LAYOUT_KEY } from "./layout.ts";
import { VERSION } from "./version.ts";

type NodeName = Pick<UpgradeStatus["nodes"][number], "name" | "pid">;

interface FormatFacts {
  readonly number: number;
  readonly brings: string;
  /** First version of the program that supports the format. */
  readonly since: string;
}

/** All formats, oldest first. A program supports the newest format and the one before it. */
export const FORMATS: readonly FormatFacts[] = [
  { number: 1, brings: "unsealed secrets", since: "builds before 0.1.0" },
  { number: 2, brings: "sealed secrets", since: "builds before 0.1.0" },
  {
    number: 3,
    brings:
      "small bodies in document records, lists of documents with conflicts, of jobs with unknown lag and of jobs by tag, alerts about rules, jobs for some nodes only (`run_on`), jobs that start after others (`after`), jobs in both directions (`pair`)",
    since: "0.1.0",
  },
];

/** The first store formats in which nodes write the rows of these features. */
export const DOCUMENTS_FORMAT = 3;
export const JOB_LISTS_FORMAT = 3;
export const RULE_ALERTS_FORMAT = 3;
export const PLACEMENT_FORMAT = 3;

export const PROGRAM: Program = { version: VERSION, formats: { min: 2, max: 3 } };

/**
 * Returns the reason why a program must not use a store, or `undefined` if it may use the store.
 * `format` is the format of the store, and `nodes` are the other nodes that use it.
 */
export function refusalOf(
  { format, nodes }: { readonly format: number | null; readonly nodes: readonly NodeName[] },
  { version, formats }: Program,
): string | undefined {
  if (format === null) return undefined;
  const range = `formats ${formats.min} to ${formats.max}`;
  if (format < formats.min && nodes.length > 0) {
    const names = nodes.map(nameOf).join(", ");
    return `the store has format ${format}, but this program (${version}) can join running nodes only with ${range}; stop ${names}, or first install an intermediate version`;
  }
  if (format <= formats.max) return undefined;
  return `the store has format ${format}, but this program (${version}) supports ${range}; install a version of Tandem that supports format ${format}, or restore a backup of format ${formats.max}`;
}

/** Throws KV_UNUSABLE if the format is supported only by newer programs. */
export function checkFormat(layout: Uint8Array | undefined, program = PROGRAM): void {
  checkJoined({ format: formatOf(layout) ?? null, nodes: [] }, program);
}

function checkJoined(store: Parameters<typeof refusalOf>[0], program: Program): void {
  const reason = refusalOf(store, program);
  if (reason !== undefined) throw new KeyValueError("KV_UNUSABLE", { reason });
}

export interface FormatsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly workers: Workers;
  /** Whether a node enables the newest format if no other node is alive when it starts. */
  readonly enablesAlone: boolean;
  readonly program?: Program;
}

/** A node's registration, and the number of its lease renewals when the registration was read. */
interface Seen {
  readonly worker: Worker;
  readonly renewalCount: number;
}

export class Formats {
  readonly name = "store-format";
  readonly program: Program;
  readonly stored = new StoreFormat(LAYOUT_KEY);
  readonly #parts: FormatsParts;
  /** Nodes that were registered when this one joined. Some of them might be dead. */
  #others: readonly Seen[] = [];

  constructor(parts: FormatsParts) {
    this.#parts = parts;
    this.program = parts.program ?? PROGRAM;
  }

  /**
   * Joins the store: from now on, this process writes only while it supports the stored format.
   * Throws KV_UNUSABLE if it does not support the format.
   */
  async join(): Promise<void> {
    const { kv } = this.#parts;
    const { min } = this.program.formats;
    kv.fence({ key: LAYOUT_KEY, check: (value) => checkFormat(value, this.program) });
    const retry = { whenUnknown: "retry" } as const;
    let format = await kv.transact((tx) => this.#joined(tx, []), retry);
    // The nodes that require a format below `min` might be dead. This node cannot expel them,
    // because it is not a worker yet.
    if (format < min && !(await this.#living(new AbortController().signal))) {
      const dead = this.#others;
      format = await kv.transact((tx) => this.#joined(tx, dead), retry);
    }
    const nodes = this.#others.map(({ worker: { node: name, processId: pid } }) => ({ name, pid }));
    checkJoined({ format, nodes }, this.program);
  }

  /**
   * Tries to join the store. First removes the registrations of `dead` workers. Returns the format
   * of the store. If other nodes are registered, the format can be too old for this program.
   */
  async #joined(tx: Transaction, dead: readonly Seen[]): Promise<number> {
    const { workers, enablesAlone } = this.#parts;
    const { min, max } = this.program.formats;
    const stored = await this.stored.read(tx);
    checkFormat(await tx.get(LAYOUT_KEY), this.program);
    for (const { worker, renewalCount } of dead) await workers.expel(tx, worker.id, renewalCount);
    this.#others = await this.#seen(tx);
    let format = stored ?? max;
    if (this.#others.length === 0) format = enablesAlone ? max : Math.max(format, min);
    if (format !== stored) this.stored.write(tx, format);
    return format;
  }

  async #seen(tx: ReadTransaction): Promise<readonly Seen[]> {
    const { workers } = this.#parts;
    const members = await workers.members(tx);
    return Promise.all(
      members.map(async (worker) => {
        return { worker, renewalCount: (await workers.lease(tx, worker.id))?.renewalCount ?? 0 };
      }),
    );
  }

  /**
   * Waits until one of the nodes that were registered at the start renews its lease. Stops waiting
   * when all these nodes are gone, or after the longest of their leases. Returns whether a lease
   * was renewed.
   */
  async #living(signal: AbortSignal): Promise<boolean> {
    const { kv, workers, runtime } = this.#parts;
    const leaseMs = largest(
      this.#others.map(({ worker }) => worker.leaseMs),
      0,
    );
    const endMs = runtime.clock.monotonicMs() + leaseMs;
    for (;;) {
      const states = await kv.read((tx) =>
        Promise.all(
          this.#others.map(async ({ worker, renewalCount }) => {
            const lease = await workers.lease(tx, worker.id);
            if (lease === undefined) return "gone";
            return lease.renewalCount === renewalCount ? "silent" : "alive";
          }),
        ),
      );
      if (states.includes("alive")) return true;
      if (!states.includes("silent") || runtime.clock.monotonicMs() >= endMs) return false;
      await runtime.clock.sleep(leaseMs / RENEWALS_PER_LEASE, signal);
    }
  }

  /**
   * Enables the highest format that all registered nodes support. Throws FORMAT_NOT_ENABLED if a
   * node runs an older program that supports only the stored format.
   */
  enable(): Promise<UpgradeStatus> {
    return this.#enable([]);
  }

  /** Like `enable`, but first removes the registrations of `dead` workers. */
  async #enable(dead: readonly Seen[]): Promise<UpgradeStatus> {
    const { kv, workers, runtime } = this.#parts;
    const enabled = await kv.transact(
      async (tx) => {
        for (const { worker, renewalCount } of dead) {
          await workers.expel(tx, worker.id, renewalCount);
        }
        const { format, can_enable, nodes } = await this.#status(tx);
        if (can_enable === null && format !== this.program.formats.max) throw notEnabled(nodes);
        if (can_enable !== null) this.stored.write(tx, can_enable);
        return can_enable;
      },
      { whenUnknown: "retry" },
    );
    if (enabled !== null) runtime.trace.event("store.format-enabled", { format: enabled });
    return this.status();
  }

  status(): Promise<UpgradeStatus> {
    return this.#parts.kv.read((tx) => this.#status(tx));
  }

  async #status(tx: ReadTransaction): Promise<UpgradeStatus> {
    const { version, formats } = this.program;
    const format = await this.stored.read(tx);
    const members = await this.#parts.workers.members(tx);
    // A program that announces no formats is assumed to support only the stored format.
    const highest = members.map(({ program }) => program?.formats.max ?? format ?? 0);
    const next = smallest(highest, formats.max);
    return {
      version,
      formats,
      format: format ?? null,
      can_enable: format !== undefined && next > format ? next : null,
      known_formats: FORMATS.map(({ number, brings, since }) => {
        return { format: number, brings, since, enabled: number <= (format ?? 0) };
      }),
      nodes: members.map(({ node, processId, program }, index) => ({
        name: node,
        pid: processId,
        version: program?.version ?? null,
        formats: program?.formats ?? null,
        blocks: (highest[index] ?? 0) < formats.max && format !== formats.max,
      })),
    };
  }

  /**
   * Enables the newest format if this node has started alone, and calls `onEnabled` whenever a
   * format has been enabled.
   */
  async run(signal: AbortSignal, onEnabled: () => Promise<void>): Promise<void> {
    const { kv, enablesAlone } = this.#parts;
    let isAlone = enablesAlone;
    for (let known: number | undefined; !signal.aborted; ) {
      const { format, changed } = await kv.transact(async (tx) => {
        return { format: await this.stored.read(tx), changed: tx.watch(LAYOUT_KEY) };
      });
      try {
        if (format !== known) await onEnabled();
        known = format;
        if (isAlone && format !== this.program.formats.max && !(await this.#living(signal))) {
          // Ignores the error FORMAT_NOT_ENABLED: a node that started in the meantime might run an
          // older program.
          await this.#enable(this.#others).catch(ignoreNotEnabled);
        }
        isAlone = false;
        await changed.fired(signal);
      } finally {
        changed.cancel();
      }
    }
  }
}

function nameOf({ name, pid }: NodeName): string {
  return `${name} (process ${pid})`;
}

function notEnabled(nodes: UpgradeStatus["nodes"]): OperationalError {
  const names = nodes.filter(({ blocks }) => blocks).map(nameOf);
  const reason = `no higher format can be enabled while these nodes run older programs: ${names.join(", ")}; upgrade these nodes first or, if they were killed, wait for the end of their leases`;
  return new OperationalError("FORMAT_NOT_ENABLED", "The format cannot be enabled", { reason });
}

function ignoreNotEnabled(error: unknown): void {
  if (!(error instanceof OperationalError) || error.code !== "FORMAT_NOT_ENABLED") throw error;
}
