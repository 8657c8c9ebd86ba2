/**
 * Rate limit for repeated warnings. The first one is written immediately. Later ones are written
 * once a minute, with a count.
 */

const INTERVAL_MS = 60_000;
/** Maximum number of kinds of warnings tracked. Lines of other kinds are all logged. */
const KINDS_MAX = 1000;
/** Members that identify a kind of warning. Other members describe the occurrence. */
const KIND_MEMBERS = ["error", "reason", "code", "message", "origin", "service", "status"];

interface Kind {
  readonly name: string;
  sinceMs: number;
  /** Number of suppressed lines since the last written line. */
  repeated: number;
  fields: object;
}

export interface LogLine {
  readonly name: string;
  readonly fields: object;
}

export class RepeatedLines {
  readonly #kinds = new Map<string, Kind>();
  #lookedAtMs = 0;

  /** Returns the members to write now, or undefined to suppress the line. */
  admit(name: string, fields: object, nowMs: number): object | undefined {
    const key = kindOf(name, fields);
    const kind = this.#kinds.get(key);
    if (kind !== undefined) {
      kind.repeated++;
      kind.fields = fields;
      return undefined;
    }
    if (this.#kinds.size < KINDS_MAX) {
      this.#kinds.set(key, { name, sinceMs: nowMs, repeated: 0, fields });
    }
    return fields;
  }

  /**
   * Returns suppressed lines that are due, one per kind, with counts. Cheap if no lines are due.
   */
  due(nowMs: number): readonly LogLine[] {
    if (nowMs - this.#lookedAtMs < INTERVAL_MS / 60) return [];
    this.#lookedAtMs = nowMs;
    const lines: LogLine[] = [];
    for (const [key, kind] of this.#kinds) {
      if (nowMs - kind.sinceMs < INTERVAL_MS) continue;
      if (kind.repeated === 0) {
        this.#kinds.delete(key);
        continue;
      }
      const { name, fields, repeated } = kind;
      lines.push({ name, fields: { ...fields, repeated } });
      kind.sinceMs = nowMs;
      kind.repeated = 0;
    }
    return lines;
  }
}

function kindOf(name: string, fields: object): string {
  const members = fields as Readonly<Record<string, unknown>>;
  return JSON.stringify([name, ...KIND_MEMBERS.map((member) => members[member])]);
}
