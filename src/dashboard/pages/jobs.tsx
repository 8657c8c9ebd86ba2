/** List of all jobs, or of those that match filters, with commands for selected jobs. */
import { useEffect, useRef, useState } from "preact/hooks";
import { countJobs, filterPart, type Targets } from "../api/jobs.ts";
import { COMMANDS, type Command, type Query } from "../api/types.ts";
import { COMMAND_WORDS } from "../base/command-words.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount, formatDuration, formatNumber, visibleText } from "../base/format.ts";
import { shortAddress } from "../base/job-figures.ts";
import type { JobLine } from "../base/job-line.ts";
import { isShown } from "../base/saved-views.ts";
import { useTitle } from "../base/title.ts";
import { useIsNarrow } from "../base/use-narrow.ts";
import { useHand, useSteadyRows } from "../base/use-steady.ts";
import { CommandDialog } from "../components/command-dialog.tsx";
import { Ends, JobLink, Lag, Moment, Problem, Proven, StateBadge } from "../components/text.tsx";
import { useVirtualRows, type VirtualRow } from "../components/use-virtual-rows.ts";
import { JobFilters, linkWith } from "./job-filters.tsx";
import { SavedViews, useSavedViews } from "./saved-views.tsx";
import { Shortcuts } from "./shortcuts.tsx";
import { type JobList, useJobList } from "./use-job-list.ts";

/** Row heights; must match the style sheet. */
const ROW_HEIGHT = 46;
const NARROW_ROW_HEIGHT = 92;
/** Distance from the end at which the next page is loaded. */
const AHEAD_ROWS = 40;

/** The selected rows by name, or `all` rows that match the filters. */
type Selection = ReadonlySet<string> | "all";
const NONE: Selection = new Set();

/** Column headings; those with an order sort the list. */
const COLUMNS: readonly (readonly [name: string, order?: string])[] = [
  ["Name", ""],
  ["Source → target"],
  ["State"],
  ["Lag", "lag"],
  ["Age"],
  ["Last success"],
  ["Tries", "tries"],
  ["Next try"],
];

export function JobsPage({ query }: { query: Query }) {
  const list = useJobList(query);
  const saved = useSavedViews();
  const isNarrow = useIsNarrow();
  const { session } = useSurroundings();
  const [selection, setSelection] = useState<Selection>(NONE);
  const [command, setCommand] = useState<Command>();
  const key = JSON.stringify(filterPart(query));
  // Clears the selection, because a different view has different jobs.
  useEffect(() => setSelection(NONE), [key]);
  useTitle(saved.views.find((view) => isShown(view, query))?.name, "Jobs");
  const close = (isDone: boolean) => {
    setCommand(undefined);
    if (!isDone) return;
    setSelection(NONE);
    list.reload();
  };
  const commands = session.changes && (
    <Commands
      query={query}
      list={list}
      selection={selection}
      onSelect={setSelection}
      onCommand={setCommand}
    />
  );
  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        <span class="section-note" role="status">
          {totalText(list)}
        </span>
        <SavedViews query={query} list={saved} />
        <button
          type="button"
          class={list.newCount > 0 ? "quiet" : "quiet kept-place"}
          title="Job changes since the list was loaded"
          onClick={list.reload}
        >
          {`Refresh (${formatCount(list.newCount, "change")})`}
        </button>
      </div>
      <Shortcuts onStep={stepFocus} />
      <JobFilters query={query} />
      <Problem error={list.error} />
      {!isNarrow && commands}
      <JobTable
        key={JSON.stringify(query)}
        query={query}
        list={list}
        selection={selection}
        onSelect={setSelection}
      />
      {isNarrow && commands}
      {command !== undefined && (
        <CommandDialog command={command} targets={targetsOf(selection, query)} onClose={close} />
      )}
    </>
  );
}

function totalText({ total, jobs, isRead, bookmark }: JobList): string {
  if (!isRead) return "Reading…";
  if (total !== undefined) return formatCount(total, "job");
  return bookmark === undefined
    ? formatCount(jobs.length, "job")
    : `more than ${formatCount(jobs.length, "job")}`;
}

function targetsOf(selection: Selection, query: Query): Targets {
  if (selection === "all") return { kind: "filter", query };
  return { kind: "names", names: [...selection] };
}

function Commands({
  query,
  list,
  selection,
  onSelect,
  onCommand,
}: {
  query: Query;
  list: JobList;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  onCommand: (command: Command) => void;
}) {
  const [matching, setMatching] = useState<number>();
  const selectAll = async () => {
    onSelect("all");
    setMatching(list.total ?? (await countJobs(query)).count);
  };
  const count = selection === "all" ? matching : selection.size;
  const isNothing = selection !== "all" && selection.size === 0;
  return (
    <fieldset class="commands">
      <legend class="hidden">Selected jobs</legend>
      <span class="selected">
        {count === undefined ? "…" : formatNumber(count)} selected
        {selection === "all" && " (all matching jobs)"}
      </span>
      <button type="button" disabled={selection === "all"} onClick={() => void selectAll()}>
        Select all matching jobs
      </button>
      <button type="button" disabled={isNothing} onClick={() => onSelect(NONE)}>
        Select none
      </button>
      {COMMANDS.map((command) => (
        <button
          key={command}
          type="button"
          class={COMMAND_WORDS[command].isFinal ? "danger" : ""}
          disabled={isNothing}
          onClick={() => onCommand(command)}
        >
          {COMMAND_WORDS[command].verb}
        </button>
      ))}
    </fieldset>
  );
}

/**
 * A column heading with a link that sorts the list by this column. If the list is already sorted by
 * this column, the link reverses the order.
 */
function Heading({
  name,
  order,
  query,
}: {
  name: string;
  order: string | undefined;
  query: Query;
}) {
  if (order === undefined) return <th scope="col">{name}</th>;
  const isSorted = (query.sort ?? "") === order;
  const isDescending = query.descending === "true";
  const descending = isSorted && !isDescending ? "true" : "";
  const sorted = isDescending ? "descending" : "ascending";
  return (
    <th scope="col" aria-sort={isSorted ? sorted : "none"}>
      <a href={linkWith(query, { sort: order, descending })}>
        {name}
        {isSorted && (isDescending ? " ↓" : " ↑")}
      </a>
    </th>
  );
}

function JobTable({
  query,
  list,
  selection,
  onSelect,
}: {
  query: Query;
  list: JobList;
  selection: Selection;
  onSelect: (selection: Selection) => void;
}) {
  const { session } = useSurroundings();
  const scroller = useRef<HTMLDivElement>(null);
  const rowHeight = useIsNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const hand = useHand();
  const jobs = useSteadyRows(list.jobs, ({ name }) => name, hand);
  const { rows, height } = useVirtualRows(scroller, jobs.length, rowHeight);
  const lastIndex = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (list.error === undefined && lastIndex >= jobs.length - AHEAD_ROWS) list.more();
  });
  const toggle = (name: string, isSelected: boolean) => {
    const names = new Set(selection === "all" ? jobs.map(({ name }) => name) : selection);
    if (isSelected) names.add(name);
    else names.delete(name);
    onSelect(names);
  };
  return (
    <section class="table-scroller" ref={scroller} aria-label="Jobs" {...hand.handlers}>
      <table class="jobs" aria-rowcount={(list.total ?? jobs.length) + 1} onKeyDown={moveFocus}>
        <thead>
          <tr class="job-row job-head">
            <th scope="col" class="cell-check">
              <span class="hidden">Selected</span>
            </th>
            {COLUMNS.map(([name, order]) => (
              <Heading key={name} name={name} order={order} query={query} />
            ))}
          </tr>
        </thead>
        <tbody style={{ height: `${height}px` }}>
          {rows.map((row) => {
            const job = jobs[row.index];
            if (job === undefined) return null;
            const name = job.name;
            return (
              <JobRow
                key={name}
                job={job}
                row={row}
                isSelected={selection === "all" || selection.has(name)}
                onToggle={session.changes ? (isSelected) => toggle(name, isSelected) : undefined}
              />
            );
          })}
        </tbody>
      </table>
      {list.isRead && jobs.length === 0 && (
        <p class="empty">
          {Object.keys(filterPart(query)).length === 0 ? "No jobs." : "No jobs match."}
        </p>
      )}
    </section>
  );
}

function JobRow({
  job,
  row,
  isSelected,
  onToggle,
}: {
  job: JobLine;
  row: VirtualRow;
  isSelected: boolean;
  /** Called when the row is selected or deselected; absent for read-only users. */
  onToggle: ((isSelected: boolean) => void) | undefined;
}) {
  const { nowMs } = useSurroundings();
  const { failure } = job;
  return (
    <tr
      class={`job-row ${job.failing ? "job-fails" : ""}`}
      aria-rowindex={row.index + 2}
      style={{ transform: `translateY(${row.start}px)` }}
    >
      <td class="cell-check">
        {onToggle !== undefined && (
          <input
            type="checkbox"
            aria-label={`Select ${job.name}`}
            checked={isSelected}
            onChange={({ currentTarget }) => onToggle(currentTarget.checked)}
          />
        )}
      </td>
      <td class="cell-name">
        <JobLink job={job} />
      </td>
      <td class="cell-way">
        <Ends text={shortAddress(job.source)} />
        <span class="cell-target">
          {job.pair ? "⇄" : "→"} <Ends text={shortAddress(job.target)} />
        </span>
      </td>
      <td class="cell-state">
        <StateBadge job={job} />
        {failure !== null && (
          <span class="cell-error" title={visibleText(failure.reason)}>
            {failure.class.replaceAll("_", " ")}
          </span>
        )}
      </td>
      <td class="number" data-name="lag">
        <Lag job={job} />
      </td>
      <td class="number" data-name="age">
        {formatDuration((nowMs - Date.parse(job.start_time)) / 1000)}
      </td>
      <td class="number" data-name="success">
        <Proven value={job.lastSuccess && <Moment time={job.lastSuccess} />} />
      </td>
      <td class="number" data-name="tries">
        {failure === null ? <span class="nothing">–</span> : formatNumber(failure.tries)}
      </td>
      <td class="number" data-name="next">
        <Moment time={job.next_try} />
      </td>
    </tr>
  );
}

/** Moves the focus to the same column of the next or previous row, for arrow keys. */
function moveFocus(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const cell = (event.target as HTMLElement).closest("td");
  const row = cell?.closest("tr");
  if (step === undefined || cell == null || row == null) return;
  const index = Number(row.ariaRowIndex ?? row.getAttribute("aria-rowindex")) + step;
  const next = row.parentElement?.querySelector<HTMLTableRowElement>(`[aria-rowindex="${index}"]`);
  const goal = next?.cells[cell.cellIndex]?.querySelector<HTMLElement>("a, input");
  if (goal == null) return;
  event.preventDefault();
  goal.focus();
}

/**
 * Moves the focus to the link of the row `step` rows below. If no row has the focus, the first
 * row's link gets it.
 */
function stepFocus(step: number): void {
  const rows = [...document.querySelectorAll<HTMLTableRowElement>(".jobs tbody tr")];
  const current = document.activeElement?.closest("tr");
  const from = current == null ? undefined : Number(current.getAttribute("aria-rowindex"));
  const next =
    from === undefined
      ? rows[0]
      : rows.find((row) => Number(row.getAttribute("aria-rowindex")) === from + step);
  next?.querySelector("a")?.focus();
}
