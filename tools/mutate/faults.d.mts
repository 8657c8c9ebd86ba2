export interface Fault {
  readonly path: string;
  readonly rule: string;
  /** Range of the changed text. */
  readonly from: number;
  readonly to: number;
  readonly line: number;
  readonly text: string;
  readonly replacement: string;
}

export function faultsOf(path: string, text: string): readonly Fault[];

export function drawFaults(faults: readonly Fault[], count: number, seed: string): readonly Fault[];
