/**
 * Commands that replace credentials. The new credentials are written to jobs and rules. The command
 * itself stores them, sealed, until it ends.
 */
import { errorCode, type Seal, utf8Decode, utf8Encode } from "../../base/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import type {
  CredentialReplacements,
  ReplacementContent,
  ReplacementOutcome,
} from "../credential-replacements.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { BulkCommand } from "./bulk-command.ts";
import type { CommandOutcome, CommandOutcomes } from "./job-commands.ts";

export interface ReplacementCommandsParts {
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  /** Seals the credentials, if the server has a key. */
  readonly seal?: Seal | undefined;
  readonly credentials: CredentialReplacements;
}

export class ReplacementCommands {
  readonly #parts: ReplacementCommandsParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: ReplacementCommandsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /** Stores the content of a command, and opens the login gate of the new credentials. */
  async begin(tx: Transaction, id: string, content: ReplacementContent): Promise<void> {
    const { seal, credentials } = this.#parts;
    const bytes = utf8Encode(JSON.stringify(content));
    tx.set(this.#keys.commandSecret.key({ id }), seal?.seal(bytes, placeOf(id)) ?? bytes);
    await credentials.openGate(tx, content.replacement);
  }

  /** Replaces the credentials of several jobs. Returns the outcome of each job. */
  async apply(
    tx: Transaction,
    jobIds: readonly string[],
    command: BulkCommand,
  ): Promise<CommandOutcomes> {
    const content = await this.#content(tx, command.id);
    if (content === undefined) return new Map(jobIds.map((id) => [id, "ended"]));
    const { replacement, entitlement } = content;
    const decider = { ...command.decider, command: command.id };
    const { credentials } = this.#parts;
    const outcomes = await credentials.replace(tx, jobIds, replacement, decider, entitlement);
    return new Map(jobIds.map((id) => [id, outcomeOf(outcomes.get(id))]));
  }

  /**
   * Replaces the credentials in rules. Called after the credentials in jobs are replaced. Returns
   * the names of the changed rules.
   */
  async applyToRules(id: string): Promise<readonly string[]> {
    const { kv, credentials } = this.#parts;
    const content = await kv.read((tx) => this.#content(tx, id));
    if (content === undefined) return [];
    const { replacement, entitlement, rules } = content;
    for (const name of rules) {
      await credentials.replaceInRule(name, replacement, { isDryRun: false, entitlement });
    }
    return rules;
  }

  end(tx: Transaction, id: string): void {
    tx.clear(this.#keys.commandSecret.key({ id }));
  }

  /**
   * Returns the content of a command; undefined if the command has ended, or if this node lacks the
   * key.
   */
  async #content(tx: ReadTransaction, id: string): Promise<ReplacementContent | undefined> {
    const stored = await tx.get(this.#keys.commandSecret.key({ id }));
    if (stored === undefined) return undefined;
    const { seal } = this.#parts;
    try {
      return JSON.parse(utf8Decode(seal?.open(stored, placeOf(id)) ?? stored));
    } catch (error) {
      if (errorCode(error)?.startsWith("SECRETS_") === true) return undefined;
      throw error;
    }
  }
}

function outcomeOf(outcome: ReplacementOutcome | undefined): CommandOutcome {
  if (outcome === "replaced") return "done";
  return outcome === "refused" ? "ended" : "no-need";
}

function placeOf(id: string): string {
  return JSON.stringify(["command", id]);
}
