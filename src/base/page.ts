/** One bounded step of a scan, and why it ended there. */
export interface Page<Entry> {
  readonly entries: readonly Entry[];
  readonly stoppedBy: "exhausted" | "row-limit" | "byte-limit";
}
