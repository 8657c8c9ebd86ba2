export const EXPLAINED_FAULTS: readonly {
  readonly path: string;
  readonly text: string;
  readonly replacement: string;
  readonly reason: string;
}[];
