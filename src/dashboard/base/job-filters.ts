/** Filters and orders of the list of jobs, with their labels (docs/api/jobs.md). */

/** Filters without a value. */
export const FLAG_FILTERS = [
  ["failing", "Failing"],
  ["paused", "Paused"],
  ["parked", "Parked"],
  ["left_behind", "Failed documents"],
  ["stalled", "Stalled"],
  ["behind", "Behind"],
  ["unknown", "Unknown lag"],
] as const;

/** Filters with a text value; the first one is the search box. */
export const TEXT_FILTERS = [
  ["name", "Name"],
  ["source", "Source host or database"],
  ["target", "Target host or database"],
  ["source_database", "Source database"],
  ["target_database", "Target database"],
  ["database", "Replicator database"],
  ["rule", "Rule"],
  ["owner", "Owner"],
  ["tag", "Tags"],
  ["host", "Failure host"],
  ["reason", "Failure reason"],
  ["behind_sec", "Minimum lag (seconds)"],
] as const;

/** Orders of the list, with their labels. An empty value sorts by name. */
export const JOB_ORDERS = [
  ["", "Name"],
  ["since", "Failing since"],
  ["tries", "Tries"],
  ["lag", "Lag"],
] as const;
