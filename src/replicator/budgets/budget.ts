/**
 * Endpoint budgets: cluster-wide limits for the requests to a server. A budget applies to a host
 * (`example.com`, `example.com:5984`), or to one account on a host (`alice@example.com`). The
 * account is a user or an OAuth client. A request must comply with both the host's and the
 * account's budget.
 */
import { OperationalError } from "../../base/index.ts";
import type { BudgetUnit } from "../../http-client/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { loginNameOf } from "../request/authentication-schemes.ts";
import { endpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";

export type BudgetDirection = "read" | "write";

/** Limits per second by unit. A missing unit is unlimited. */
export type BudgetRates = Readonly<Partial<Record<BudgetUnit, number>>>;

export interface Budget {
  readonly read: BudgetRates;
  readonly write: BudgetRates;
}

/** Thrown for an invalid budget. `reason` names the invalid field. */
export class BudgetInvalidError extends OperationalError {
  override readonly name = "BudgetInvalidError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_BUDGET_INVALID", "The budget is not valid", { reason });
    this.reason = reason;
  }
}

const BYTES_PER_MEGABYTE = 1_000_000;
/**
 * Members of `read` and `write`: field name, unit of the limit, and factor that converts the
 * field's value to this unit.
 */
const FIELDS: readonly (readonly [field: string, unit: BudgetUnit, size: number])[] = [
  ["requests_per_sec", "requests", 1],
  ["documents_per_sec", "documents", 1],
  ["megabytes_per_sec", "bytes", BYTES_PER_MEGABYTE],
];
/**
 * Pattern of budget names. An account must not contain a colon, which separates the user name from
 * the password in a URL.
 */
const NAME = /^(?:[^@:/\s]+@)?(?:[^@/:\s[\]]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const NAME_LENGTH_MAX = 500;

/**
 * Returns the names of the budgets that would apply to an endpoint; they need not exist. Empty for
 * local databases.
 */
export function budgetNames(address: EndpointAddress): readonly string[] {
  if (address.kind === "local") return [];
  const { host } = endpointUrl(address);
  const account = loginNameOf(address);
  return account === undefined ? [host] : [host, `${account}@${host}`];
}

/**
 * Normalizes the name of a budget, because hosts are case-insensitive. Throws a BudgetInvalidError
 * if the name is invalid.
 */
export function parseBudgetName(text: string): string {
  if (!NAME.test(text) || text.length > NAME_LENGTH_MAX) {
    throw new BudgetInvalidError(
      `budget name ${JSON.stringify(maskCredentials(text))}: expected HOST, HOST:PORT or ACCOUNT@HOST[:PORT]`,
    );
  }
  const at = text.lastIndexOf("@");
  return text.slice(0, at + 1) + text.slice(at + 1).toLowerCase();
}

/**
 * Parses a budget: `{"read": {"requests_per_sec", "documents_per_sec", "megabytes_per_sec"},
 * "write": {…}}`.
 */
export function parseBudget(members: Readonly<Record<string, unknown>>): Budget {
  for (const name of Object.keys(members)) {
    if (name !== "read" && name !== "write") {
      throw new BudgetInvalidError(`\`${name}\` is not known: expected \`read\` or \`write\``);
    }
  }
  return { read: parseRates("read", members.read), write: parseRates("write", members.write) };
}

/** Formats a budget in the form that `parseBudget` accepts. */
export function budgetView({
  read,
  write,
}: Budget): Readonly<Record<BudgetDirection, Readonly<Record<string, number>>>> {
  return { read: ratesView(read), write: ratesView(write) };
}

function parseRates(direction: BudgetDirection, value: unknown): BudgetRates {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new BudgetInvalidError(`\`${direction}\` must be an object`);
  }
  const rates: Partial<Record<BudgetUnit, number>> = {};
  for (const [name, rate] of Object.entries(value)) {
    const field = FIELDS.find(([known]) => known === name);
    if (field === undefined) {
      const known = FIELDS.map(([text]) => `\`${text}\``).join(", ");
      throw new BudgetInvalidError(`\`${direction}.${name}\` is not known: expected ${known}`);
    }
    if (rate === null) continue;
    if (typeof rate !== "number" || !(rate > 0)) {
      throw new BudgetInvalidError(
        `\`${direction}.${name}\` = ${JSON.stringify(rate)}: expected a number above 0`,
      );
    }
    rates[field[1]] = rate * field[2];
  }
  return rates;
}

function ratesView(rates: BudgetRates): Readonly<Record<string, number>> {
  return Object.fromEntries(
    FIELDS.flatMap(([field, unit, size]) => {
      const rate = rates[unit];
      return rate === undefined ? [] : [[field, rate / size]];
    }),
  );
}
