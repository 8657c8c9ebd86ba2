/**
 * Stores the budgets of the cluster. Each budget limits the requests of all nodes together, and
 * every node watches for changes of budgets.
 */
import { assert, OperationalError, type Runtime } from "../../base/index.ts";
import type { BudgetUnit, EndpointSpending, Spending } from "../../http-client/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { type Budget, type BudgetDirection, budgetNames, parseBudgetName } from "./budget.ts";
import { BudgetMeter } from "./budget-meter.ts";
import {
  decodeBudget,
  decodeReservedUntil,
  encodeBudget,
  encodeReservedUntil,
} from "./budget-record.ts";

/** Maximum number of budgets, because all budgets are read in one transaction. */
const BUDGETS_MAX = 1000;
/** Time for which unused capacity accumulates. It limits the size of a burst. */
const BURST_MS = 100;
/**
 * Maximum time by which reservations can extend into the future. A later reservation was written by
 * a process whose clock was ahead, and is ignored.
 */
const RESERVED_AHEAD_MS_MAX = 600_000;

export class TooManyBudgetsError extends OperationalError {
  override readonly name = "TooManyBudgetsError";

  constructor() {
    super("REPLICATOR_TOO_MANY_BUDGETS", `A cluster may have at most ${BUDGETS_MAX} budgets`, {});
  }
}

export interface BudgetsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
}

export class Budgets {
  readonly name = "replicator.budgets";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #keys: ReplicatorKeys;
  readonly #meters = new Map<string, BudgetMeter>();
  #known: ReadonlyMap<string, Budget> = new Map();
  #changed = new AbortController();

  constructor({ runtime, kv, subspace }: BudgetsParts) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#keys = replicatorKeys(subspace);
  }

  list(): Promise<ReadonlyMap<string, Budget>> {
    return this.#kv.read((tx) => this.#readAll(tx));
  }

  async get(name: string): Promise<Budget | undefined> {
    const value = await this.#kv.read((tx) =>
      tx.get(this.#keys.budget.key({ name: parseBudgetName(name) })),
    );
    return value && decodeBudget(value);
  }

  /**
   * Sets a budget for all nodes, or removes it if `budget` is undefined. Returns whether the budget
   * existed before.
   */
  async set(name: string, budget: Budget | undefined): Promise<boolean> {
    const parsed = parseBudgetName(name);
    return this.#kv.transact(async (tx) => {
      const key = this.#keys.budget.key({ name: parsed });
      const existed = (await tx.get(key)) !== undefined;
      if (!existed && budget !== undefined) {
        if ((await this.#readAll(tx)).size >= BUDGETS_MAX) throw new TooManyBudgetsError();
      }
      if (budget === undefined) tx.clear(key);
      else tx.set(key, encodeBudget(budget));
      // Drop existing reservations: they were made at the previous rate, and would delay new
      // reservations.
      tx.clearRange(this.#keys.budgetReservation.range({ name: parsed }));
      tx.add(this.#keys.budgetsChanged.key({}), 1n);
      return existed;
    });
  }

  /**
   * Watches for changes of budgets until `signal` aborts. No limits apply before the first read.
   */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { known, watch } = await this.#kv.transact(async (tx) => ({
        known: await this.#readAll(tx),
        watch: tx.watch(this.#keys.budgetsChanged.key({})),
      }));
      this.#known = known;
      this.#changed.abort(new Error("Budgets changed"));
      this.#changed = new AbortController();
      try {
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
    }
  }

  /** Returns functions that wait until the endpoint's budgets permit a request. */
  spendingFor(address: EndpointAddress): EndpointSpending {
    const names = budgetNames(address);
    return { read: this.#spending(names, "read"), write: this.#spending(names, "write") };
  }

  #spending(names: readonly string[], direction: BudgetDirection): Spending {
    const isLimited = (name: string, unit: BudgetUnit): boolean =>
      this.#known.get(name)?.[direction][unit] !== undefined;
    const wait = async (unit: BudgetUnit, count: number, signal: AbortSignal): Promise<void> => {
      for (const name of names) {
        if (!isLimited(name, unit)) continue;
        await this.#meter(name, direction, unit).spend(count, signal);
      }
    };
    return {
      spend: (unit, count, signal) =>
        names.some((name) => isLimited(name, unit)) ? wait(unit, count, signal) : undefined,
    };
  }

  #meter(name: string, direction: BudgetDirection, unit: BudgetUnit): BudgetMeter {
    const key = `${direction} ${unit} ${name}`;
    const existing = this.#meters.get(key);
    if (existing !== undefined) return existing;
    const rate = (): number | undefined => this.#known.get(name)?.[direction][unit];
    const meter = new BudgetMeter({
      clock: this.#runtime.clock,
      rate,
      reserve: (amount) => this.#reserve(name, direction, unit, amount, rate()),
      changed: () => this.#changed.signal,
    });
    this.#meters.set(key, meter);
    return meter;
  }

  async #reserve(
    name: string,
    direction: BudgetDirection,
    unit: BudgetUnit,
    amount: number,
    perSec: number | undefined,
  ): Promise<number> {
    assert(perSec !== undefined, "A reservation must have a limit");
    const key = this.#keys.budgetReservation.key({ name, direction, unit });
    return this.#kv.transact(
      async (tx) => {
        const nowMs = this.#runtime.clock.nowMs();
        const stored = await tx.get(key);
        const reservedUntilMs = stored === undefined ? 0 : decodeReservedUntil(stored);
        const isSound = reservedUntilMs < nowMs + RESERVED_AHEAD_MS_MAX;
        const beginsAtMs = Math.max(nowMs - BURST_MS, isSound ? reservedUntilMs : 0);
        tx.set(key, encodeReservedUntil(beginsAtMs + (amount / perSec) * 1000));
        return beginsAtMs;
      },
      // A commit with an unknown outcome can be repeated: in the worst case, an interval is
      // reserved but never used.
      { whenUnknown: "retry" },
    );
  }

  async #readAll(tx: ReadTransaction): Promise<ReadonlyMap<string, Budget>> {
    const budgets = new Map<string, Budget>();
    for await (const { key, value } of tx.getRange(this.#keys.budget.range())) {
      budgets.set(this.#keys.budget.unpack(key).name, decodeBudget(value));
    }
    return budgets;
  }
}
