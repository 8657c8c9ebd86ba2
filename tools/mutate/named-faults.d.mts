export const NAMED_FAULTS: readonly {
  readonly rule: string;
  readonly path: string;
  readonly text: string;
  readonly replacement: string;
  readonly tests: readonly string[];
}[];
