/**
 * Follows rules on this node (`rule-follower.ts`). The jobs of the followers do not occupy slots.
 */
import { assert, backoff, currentSec, runTogether } from "../../base/index.ts";
import {
  type HeartbeatParts,
  type HeldJob,
  isJobLost,
  type Job,
  type SlotlessJobType,
  showLife,
} from "../../jobs/index.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import { classifyFailure, describeFailure, hostOfFailedProxy } from "../failures/failure.ts";
import type { RULE_TYPES } from "../jobs/rule-jobs.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import { type ListedServerParts, openListedServer } from "./listed-server.ts";
import { parseRule } from "./rule.ts";
import {
  type FollowedRule,
  type Listing,
  RuleFollower,
  type RuleFollowerParts,
} from "./rule-follower.ts";
import {
  decodeRuleProgress,
  encodeRuleProgress,
  type RuleFailure,
  type RuleProgress,
} from "./rule-progress.ts";

/** Pause before retrying an unreachable source. Doubled after each failure. */
const PAUSE_SEC = { min: 1, max: 60 };

export interface RuleFollowersParts
  extends RuleFollowerParts,
    HeartbeatParts,
    Omit<ListedServerParts, "kv"> {
  readonly config: RuleFollowerParts["config"] & HeartbeatParts["config"];
}

export class RuleFollowers implements SlotlessJobType {
  readonly type: (typeof RULE_TYPES)[number];
  readonly #parts: RuleFollowersParts;

  constructor(parts: RuleFollowersParts, type: (typeof RULE_TYPES)[number]) {
    this.type = type;
    this.#parts = parts;
  }

  async run(held: HeldJob, { data }: Pick<Job, "data">, stopped: AbortSignal): Promise<void> {
    const { trace } = this.#parts.runtime;
    let progress = decodeRuleProgress(data);
    let failure: RuleFailure | undefined;
    let host: string | undefined;
    try {
      await runTogether(stopped, [
        async (signal) => {
          const followed = await this.#read(held);
          const { server } = followed.rule;
          host = server && validEndpointUrl(server)?.host;
          await this.#follow(held, followed, signal, async (listing) => {
            progress = this.#after(progress, listing);
            await this.#store(held, progress);
          });
        },
        (signal) => showLife(this.#parts, held, signal),
        (signal) => this.#watch(held, signal),
      ]);
    } catch (error) {
      if (!stopped.aborted && !(error instanceof Changed)) {
        const cause = { class: classifyFailure(error), host: hostOfFailedProxy(error) ?? host };
        failure = { ...describeFailure(error), cause };
      }
    }
    try {
      if (failure !== undefined) {
        const { error, reason } = failure;
        trace.event("replication.rule-lost", { rule: held.id, error: `${error}: ${reason}` });
      }
      const attempt = failure === undefined ? 0 : progress.attempt + 1;
      await this.#end(held, { ...progress, attempt, failure });
    } catch (error) {
      if (isJobLost(error)) return;
      trace.event("replication.rule-lost", { rule: held.id, error: String(error) });
    }
  }

  async #follow(
    held: HeldJob,
    followed: FollowedRule,
    signal: AbortSignal,
    onListed: (listing: Listing) => Promise<void>,
  ): Promise<void> {
    const server = await openListedServer(this.#parts, followed);
    await new RuleFollower(this.#parts, held, followed, server, onListed).follow(signal);
  }

  async #read({ id: name }: HeldJob): Promise<FollowedRule> {
    const { kv, store, config } = this.#parts;
    const stored = await kv.read((tx) => store.get(tx, name));
    assert(stored !== undefined, "A rule and its job are removed together");
    const { uuid, generation, content } = stored;
    if (content === undefined) {
      const reason = "The rule is sealed with a key that this node lacks";
      throw new EndpointError("secret_missing", reason);
    }
    const rule = parseRule(content.members, config);
    return { name, uuid, generation, rule, owner: content.owner };
  }

  /** Waits until the rule has changed or its job is lost; rejects in both cases. */
  async #watch(held: HeldJob, signal: AbortSignal): Promise<void> {
    const { kv, jobs } = this.#parts;
    const { watch, isChanged } = await kv.transact(async (tx) => ({
      watch: await jobs.watchHeld(tx, held),
      isChanged: await jobs.isResubmitted(tx, held),
    }));
    try {
      if (!isChanged) await watch.fired(signal);
    } finally {
      watch.cancel();
    }
    throw new Changed();
  }

  #after(progress: RuleProgress, { count, followedBy }: Listing): RuleProgress {
    const { matchedCount, faultCount, faults } = count;
    const listedMs = this.#parts.runtime.clock.nowMs();
    const found = { listedMs, matchedCount, faultCount, faults, followedBy };
    return { ...progress, ...found, attempt: 0, failure: undefined };
  }

  async #store(held: HeldJob, progress: RuleProgress): Promise<void> {
    const { kv, jobs, runtime } = this.#parts;
    await kv.transact((tx) => jobs.update(tx, held, encodeRuleProgress(progress)), {
      whenUnknown: "retry",
    });
    runtime.trace.event("replication.rule-listed", { rule: held.id });
  }

  /**
   * Reschedules the rule's job: after a pause if the run failed and the rule is unchanged,
   * otherwise immediately.
   */
  async #end(held: HeldJob, progress: RuleProgress): Promise<void> {
    const { kv, jobs, runtime } = this.#parts;
    const nowSec = currentSec(runtime.clock);
    const { failure, attempt } = progress;
    const pauseSec = backoff(PAUSE_SEC, attempt);
    await kv.transact(async (tx) => {
      const isChanged = await jobs.isResubmitted(tx, held);
      const isPausing = failure !== undefined && !isChanged;
      await jobs.resubmit(tx, held, isPausing ? nowSec + pauseSec : nowSec);
      await jobs.finish(tx, held, encodeRuleProgress(progress));
    });
  }
}

/** Thrown when the rule has changed, or another node has the rule's job. */
class Changed extends Error {}
