/** One bounded step of a scan, and the reason why it ended. */
export interface Page<Entry> {
  readonly entries: readonly Entry[];
  readonly stoppedBy: "exhausted" | "row-limit" | "byte-limit";
}
