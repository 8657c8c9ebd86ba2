/** Effect of changing a rule, as reported by the node in advance. */
import type { PlannedDatabases, RulePlan } from "../../contract/index.ts";
import { formatNumber } from "../base/format.ts";
import { ShortList } from "../components/short-list.tsx";
import { Foreign } from "../components/text.tsx";

const PARTS: readonly (readonly [
  name: Exclude<keyof RulePlan, "ok" | "dry_run">,
  one: string,
  many: string,
])[] = [
  ["databases", "database matches", "databases match"],
  ["create", "database gets a job", "databases get a job"],
  ["replace", "job is replaced", "jobs are replaced"],
  ["cancel", "job is cancelled", "jobs are cancelled"],
  ["cannot_copy", "database cannot be copied", "databases cannot be copied"],
  [
    "overwrite_security",
    "security object of a target is overwritten",
    "security objects of targets are overwritten",
  ],
];

export function Plan({ plan }: { plan: RulePlan }) {
  return (
    <ShortList label="Preview">
      {PARTS.map(([name, one, many]) => {
        const planned = plan[name];
        if (planned === undefined || (name !== "databases" && planned.count === 0)) return null;
        return (
          <li key={name}>
            <strong>{formatNumber(planned.count)}</strong> {planned.count === 1 ? one : many}{" "}
            <Names of={planned} />
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
