/** A range bound relative to a key that need not exist (FoundationDB's key selectors). */
export interface KeySelector {
  readonly kind: "selector";
  readonly key: Uint8Array;
  readonly orEqual: boolean;
  readonly offset: number;
}

export function lastLessThan(key: Uint8Array): KeySelector {
  return { kind: "selector", key, orEqual: false, offset: 0 };
}

export function lastLessOrEqual(key: Uint8Array): KeySelector {
  return { kind: "selector", key, orEqual: true, offset: 0 };
}

export function firstGreaterThan(key: Uint8Array): KeySelector {
  return { kind: "selector", key, orEqual: true, offset: 1 };
}

export function firstGreaterOrEqual(key: Uint8Array): KeySelector {
  return { kind: "selector", key, orEqual: false, offset: 1 };
}
