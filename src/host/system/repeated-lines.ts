/** Keeps trouble that repeats from filling the log: the first line is written at once, and then one a minute, with a count. */

const INTERVAL_MS = 60_000;
/** Kinds of trouble that are kept apart; what comes beyond is written as it comes. */
const KINDS_MAX = 1000;
/** The members that say which trouble it is; others say where and when. */
const KIND_MEMBERS = ["error", "reason", "code", "message", "origin", "service", "status"];

interface Kind {
  readonly name: string;
  sinceMs: number;
  /** Lines that were left out since then, and the last of them. */
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

  /** The members to write now; undefined: nothing. */
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

  /** The lines that were left out long enough, one for each kind, with their number. Cheap while there are none. */
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
