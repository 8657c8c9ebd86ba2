/**
 * Groups that share the slots. Their shares can be edited, with an immediate preview of the
 * resulting part of the slots.
 */
import { useState } from "preact/hooks";
import type { GroupRow } from "../../contract/index.ts";
import { SHARES_MAX } from "../api/limits.ts";
import { type Page, setShares } from "../api/servers.ts";
import { useSurroundings } from "../base/context.ts";
import { formatCount, formatDuration, formatNumber } from "../base/format.ts";
import { partOfSlots } from "../base/shares.ts";
import { useHand, useSteadyRows } from "../base/use-steady.ts";
import { linkTo } from "../base/view.ts";
import { Cell, type Column, Table } from "../components/table.tsx";
import { Foreign, Problem } from "../components/text.tsx";

const COLUMNS: readonly Column[] = [
  { name: "Group" },
  { name: "Running", isNumber: true },
  { name: "Waiting", isNumber: true },
  { name: "Ended", isNumber: true },
  { name: "Longest wait", isNumber: true },
  { name: "Usage", isNumber: true },
  { name: "Usage per share", isNumber: true },
  { name: "Shares", isNumber: true },
  { name: "Slot share", isNumber: true },
];

interface Draft {
  readonly name: string;
  /** Shares as typed. */
  readonly text: string;
}

const keyOfRow = ({ name }: GroupRow) => name;

export function Groups({
  page: { total, rows },
  onChange,
}: {
  page: Page<GroupRow>;
  onChange: () => void;
}) {
  const { session, announce } = useSurroundings();
  const [draft, setDraft] = useState<Draft>();
  const [error, setError] = useState<unknown>();
  const wanted = draft === undefined ? undefined : sharesOf(draft.text);
  const hand = useHand();
  const shown = useSteadyRows(rows, keyOfRow, hand).map((group) =>
    group.name === draft?.name && wanted !== undefined ? { ...group, shares: wanted } : group,
  );
  const save = async (name: string, shares: number) => {
    setError(undefined);
    try {
      await setShares(name, shares);
      announce(`Shares of ${name} set to ${formatNumber(shares)}`);
      setDraft(undefined);
      onChange();
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <>
      <div class="page-head">
        <h2>Groups</h2>
        <span class="section-note">
          {formatCount(total, "group shares", "groups share")} the slots
        </span>
      </div>
      <Problem error={error} />
      {total > 0 && (
        <Table label="Groups" columns={COLUMNS} hand={hand}>
          {shown.map((group) => (
            <Row
              key={group.name}
              group={group}
              part={partOfSlots(group.name, shown)}
              draft={group.name === draft?.name ? draft.text : undefined}
              onDraft={
                session.changes
                  ? (text) => setDraft(text === undefined ? undefined : { name: group.name, text })
                  : undefined
              }
              onSave={(shares) => void save(group.name, shares)}
            />
          ))}
        </Table>
      )}
    </>
  );
}

function Row({
  group,
  part,
  draft,
  onDraft,
  onSave,
}: {
  group: GroupRow;
  /** Fraction of the slots, from 0 to 1. */
  part: number;
  /** Shares as typed; absent unless they are being edited. */
  draft: string | undefined;
  /** Called when the user edits the shares; absent for read-only users. */
  onDraft: ((text: string | undefined) => void) | undefined;
  onSave: (shares: number) => void;
}) {
  const { name, jobs, shares } = group;
  // Jobs created by requests are grouped by user, so they cannot be listed by database.
  const isDatabase = !name.startsWith("user:");
  return (
    <tr>
      <th scope="row">
        {isDatabase ? (
          <a href={linkTo(["jobs"], { database: name })}>
            <Foreign text={name} />
          </a>
        ) : (
          <Foreign text={name} />
        )}
      </th>
      <Cell name="Running" isNumber>
        {formatNumber(jobs.running)}
      </Cell>
      <Cell name="Waiting" isNumber>
        {formatNumber(jobs.pending)}
      </Cell>
      <Cell name="Ended" isNumber>
        {formatNumber(jobs.ended)}
      </Cell>
      <Cell name="Longest wait" isNumber>
        {formatDuration(group.longest_wait_sec)}
      </Cell>
      <Cell name="Usage" isNumber>
        {formatDuration(group.usage_sec)}
      </Cell>
      <Cell name="Usage per share" isNumber>
        {formatNumber(Math.round(group.standing * 10) / 10)} s
      </Cell>
      <Cell name="Shares" isNumber>
        {draft === undefined || onDraft === undefined ? (
          <>
            {formatNumber(shares)}
            {onDraft !== undefined && (
              <button
                type="button"
                class="quiet"
                aria-label={`Edit shares of ${name}`}
                onClick={() => onDraft(String(shares))}
              >
                Edit
              </button>
            )}
          </>
        ) : (
          <form
            class="shares"
            onSubmit={(event) => {
              event.preventDefault();
              const wanted = sharesOf(draft);
              if (wanted !== undefined) onSave(wanted);
            }}
          >
            <input
              type="number"
              min={1}
              max={SHARES_MAX}
              required
              aria-label={`Shares of ${name}`}
              value={draft}
              ref={takeFocus}
              onInput={({ currentTarget }) => onDraft(currentTarget.value)}
              onKeyDown={({ key }) => {
                if (key === "Escape") onDraft(undefined);
              }}
            />
            <button type="submit" class="primary">
              Set
            </button>
            <button type="button" onClick={() => onDraft(undefined)}>
              Keep
            </button>
          </form>
        )}
      </Cell>
      <Cell name="Slot share" isNumber>
        {formatNumber(Math.round(part * 1_000) / 10)} %
      </Cell>
    </tr>
  );
}

/**
 * Defined outside the component, because a new ref function would be called again on each render.
 */
function takeFocus(element: HTMLElement | null): void {
  element?.focus();
}

/** Parses shares; `undefined` if they are invalid. */
function sharesOf(text: string): number | undefined {
  const shares = Number(text);
  return Number.isInteger(shares) && shares >= 1 && shares <= SHARES_MAX ? shares : undefined;
}
