/** Filters and order of the list of jobs. Each change leads to a new address. */
import { FAILURE_CLASSES, JOB_STATES, STATE_WORDS } from "../../contract/index.ts";
import { NONE } from "../api/failing-filter.ts";
import type { Query } from "../api/types.ts";
import { visibleText } from "../base/format.ts";
import { FLAG_FILTERS, JOB_ORDERS, TEXT_FILTERS } from "../base/job-filters.ts";
import { goTo } from "../base/location.ts";
import { useIsNarrow } from "../base/use-narrow.ts";
import { linkTo } from "../base/view.ts";
import { FilterField } from "../components/filter-field.tsx";
import { Foreign } from "../components/text.tsx";

/** Id of the search box, which the key `/` focuses. */
export const SEARCH_BOX_ID = "search";
/** Filters that are always visible. */
const CHOSEN = new Set<string>([
  "name",
  "state",
  "error",
  "side",
  "sort",
  "descending",
  ...FLAG_FILTERS.map(([name]) => name),
]);

const LABELS: ReadonlyMap<string, string> = new Map(TEXT_FILTERS);

/**
 * Returns the list's URL with some query parameters changed. An empty value removes the parameter.
 */
export function linkWith(query: Query, changes: Query): string {
  const kept = Object.entries({ ...query, ...changes }).filter(([, value]) => value !== "");
  return linkTo(["jobs"], Object.fromEntries(kept));
}

export function JobFilters({ query }: { query: Query }) {
  const change = (name: string, value: string) => goTo(linkWith(query, { [name]: value }));
  const others = Object.entries(query).filter(([name]) => !CHOSEN.has(name));
  const isFiltered = Object.keys(query).some((name) => name !== "sort" && name !== "descending");
  const isNarrow = useIsNarrow();
  const chosenCount = Object.keys(query).filter(
    (name) => name !== "name" && CHOSEN.has(name),
  ).length;
  const choices = (
    <>
      <Choice
        label="State"
        value={query.state ?? ""}
        values={["", "pending,crashing", ...JOB_STATES]}
        words={{ ...STATE_WORDS, "": "any", "pending,crashing": "waiting or crashing" }}
        onChange={(value) => change("state", value)}
      />
      {FLAG_FILTERS.map(([name, label]) => (
        <Choice
          key={name}
          label={label}
          value={query[name] ?? ""}
          values={["", "true", "false"]}
          words={{ "": "any", true: "yes", false: "no" }}
          onChange={(value) => change(name, value)}
        />
      ))}
      <Choice
        label="Error"
        value={query.error ?? ""}
        values={["", ...FAILURE_CLASSES]}
        words={{ "": "any" }}
        onChange={(value) => change("error", value)}
      />
      <Choice
        label="At"
        value={query.side ?? ""}
        values={["", "source", "target", NONE]}
        words={{ "": "any side", [NONE]: "neither" }}
        onChange={(value) => change("side", value)}
      />
      <Choice
        label="Order"
        value={query.sort ?? ""}
        values={JOB_ORDERS.map(([name]) => name)}
        words={Object.fromEntries(JOB_ORDERS)}
        onChange={(value) => change("sort", value)}
      />
      <Choice
        label="Direction"
        value={query.descending ?? ""}
        values={["", "true"]}
        words={{ "": "ascending", true: "descending" }}
        onChange={(value) => change("descending", value)}
      />
    </>
  );
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <FilterField
        label="Name"
        id={SEARCH_BOX_ID}
        placeholder="prefix, or use *"
        value={query.name ?? ""}
        onCommit={(value) => change("name", value)}
      />
      {!isNarrow && choices}
      <details class="more-filters">
        <summary>
          {isNarrow ? "Filters" : "More filters"}
          {isNarrow && chosenCount > 0 && ` (${chosenCount})`}
        </summary>
        <div class="filter-texts">
          {isNarrow && choices}
          {TEXT_FILTERS.filter(([name]) => name !== "name").map(([name, label]) => (
            <FilterField
              key={name}
              label={label}
              inputMode={name === "behind_sec" ? "numeric" : "text"}
              value={query[name] ?? ""}
              onCommit={(value) => change(name, value)}
            />
          ))}
        </div>
      </details>
      {others.map(([name, value]) => (
        <a key={name} class="button" href={linkWith(query, { [name]: "" })}>
          {LABELS.get(name) ?? <Foreign text={name} />}:{" "}
          {value === NONE ? "none" : <Foreign text={value} />} ×
          <span class="hidden"> remove this filter</span>
        </a>
      ))}
      {isFiltered && (
        <a class="button" href={linkTo(["jobs"])}>
          All jobs
        </a>
      )}
    </form>
  );
}

export function Choice({
  label,
  value,
  values,
  words,
  onChange,
}: {
  label: string;
  value: string;
  values: readonly string[];
  /** Labels of values that are not self-explanatory. */
  words: Readonly<Record<string, string>>;
  onChange: (value: string) => void;
}) {
  // The value in the address might not be one of the options; it is then added.
  const offered = values.includes(value) ? values : [...values, value];
  return (
    <label class="field">
      {label}
      <select value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {offered.map((choice) => (
          <option key={choice} value={choice}>
            {words[choice] ?? visibleText(choice.replaceAll("_", " "))}
          </option>
        ))}
      </select>
    </label>
  );
}
