/** Effect of changing a rule, as reported by the node in advance. */
import type { PlannedDatabases, RulePlan } from "../../contract/index.ts";
import { formatNumber } from "../base/format.ts";
import { ShortList } from "../components/short-list.tsx";
import { Foreign } from "../components/text.tsx";

const PARTS: readonly (readonly [
  name: Exclude<keyof RulePlan, "ok" | "dry_run">,
  words: string,
])[] = [
  ["databases", "match"],
  ["create", "get a job"],
  ["replace", "get a new job in place of the current one"],
  ["cancel", "lose their job"],
  ["cannot_copy", "cannot be copied"],
  ["overwrite_security", "get another security object"],
];

export function Plan({ plan }: { plan: RulePlan }) {
  return (
    <ShortList label="Preview">
      {PARTS.map(([name, words]) => {
        const planned = plan[name];
        if (planned === undefined || (name !== "databases" && planned.count === 0)) return null;
        return (
          <li key={name}>
            <strong>{formatNumber(planned.count)}</strong> {words} <Names of={planned} />
          </li>
        );
      })}
    </ShortList>
  );
}

function Names({ of: { count, first } }: { of: PlannedDatabases }) {
  if (count === 0) return null;
  return (
    <span class="section-note">
      (<Foreign text={first.join(", ")} />
      {count > first.length && ", …"})
    </span>
  );
}
