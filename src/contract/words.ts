/** String constants in the JSON of jobs. */

export const JOB_STATES = ["running", "pending", "crashing", "completed", "failed"] as const;
export type JobState = (typeof JOB_STATES)[number];

export const FAILURE_CLASSES = [
  "unreachable",
  "dns",
  "tls",
  "timeout",
  "unauthorized",
  "forbidden",
  "not_found",
  "rate_limited",
  "storage_full",
  "server_error",
  "refused_document",
  "filter",
  "egress",
  "duplicate",
  "invalid",
  "other",
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];
