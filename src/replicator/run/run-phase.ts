/**
 * Phases of a job held by this node. A short run stores its start together with its end, which
 * saves a commit; every other run stores its start immediately. The functions are pure, and
 * docs/spec/replicator.md has the same table.
 *
 *   accepted               no run has begun
 *   begun                  the run has begun, and its start is not stored yet
 *   begun-checkpointed     like `begun`, with a checkpoint at which the next run resumes
 *   running                the start of the run is stored
 *   running-checkpointed   like `running`, with a checkpoint
 */
export const RUN_PHASES = [
  "accepted",
  "begun",
  "begun-checkpointed",
  "running",
  "running-checkpointed",
] as const;
export type RunPhase = (typeof RUN_PHASES)[number];

/**
 * Events of a run:
 *   begin          a short run has begun
 *   begin-stored   a run has begun, and its start is stored
 *   checkpoint     the run has a checkpoint
 *   store          the progress is stored, together with the start
 */
export const PHASE_EVENTS = ["begin", "begin-stored", "checkpoint", "store"] as const;
export type PhaseEvent = (typeof PHASE_EVENTS)[number];

const TRANSITIONS: Readonly<Record<RunPhase, Readonly<Record<PhaseEvent, RunPhase>>>> = {
  accepted: to("begun", "running", "accepted", "accepted"),
  begun: to("begun", "running", "begun-checkpointed", "running"),
  "begun-checkpointed": to(
    "begun-checkpointed",
    "running-checkpointed",
    "begun-checkpointed",
    "running-checkpointed",
  ),
  running: to("running", "running", "running-checkpointed", "running"),
  "running-checkpointed": to(
    "running-checkpointed",
    "running-checkpointed",
    "running-checkpointed",
    "running-checkpointed",
  ),
};

function to(
  begin: RunPhase,
  beginStored: RunPhase,
  checkpoint: RunPhase,
  store: RunPhase,
): Record<PhaseEvent, RunPhase> {
  return { begin, "begin-stored": beginStored, checkpoint, store };
}

export function phaseAfter(phase: RunPhase, event: PhaseEvent): RunPhase {
  return TRANSITIONS[phase][event];
}

/** Whether the start of the run must be recorded by the next write. */
export function isStartUnstored(phase: RunPhase): boolean {
  return phase === "begun" || phase === "begun-checkpointed";
}

export function isStartStored(phase: RunPhase): boolean {
  return phase === "running" || phase === "running-checkpointed";
}

/** Whether the next run resumes at a checkpoint of this run. */
export function isCheckpointed(phase: RunPhase): boolean {
  return phase === "begun-checkpointed" || phase === "running-checkpointed";
}
