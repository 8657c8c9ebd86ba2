/** Parts of the contract. The suite skips tests of the parts that an engine lacks. */

/** An optional part of the contract. All other parts are required. */
export type Feature = "atomics" | "versionstamps" | "watches" | "limits" | "read-version-age";

export const FEATURES: readonly Feature[] = [
  "atomics",
  "versionstamps",
  "watches",
  "limits",
  "read-version-age",
];

/** Declares a test, and the features that it needs in addition to those of its group. */
export type Test = (name: string, run: () => Promise<void>, needs?: readonly Feature[]) => void;
