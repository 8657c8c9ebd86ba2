/**
 * The settings of the node that served the page, with defaults and differences. Administrators can
 * edit them.
 */
import { useRef, useState } from "preact/hooks";
import type { SettingRow } from "../../contract/index.ts";
import { defaultOf, readSettings, withUnit } from "../api/settings.ts";
import type { Query } from "../api/types.ts";
import { useIdleFeed, useSurroundings } from "../base/context.ts";
import { formatCount } from "../base/format.ts";
import { goTo } from "../base/location.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { Cell, type Column, Table } from "../components/table.tsx";
import { Foreign, Problem } from "../components/text.tsx";
import { SettingDialog } from "./setting-dialog.tsx";

const COLUMNS: readonly Column[] = [
  { name: "Section" },
  { name: "Key" },
  { name: "Value" },
  { name: "Default" },
  { name: "Description" },
  { name: "Takes effect" },
];

export function SettingsPage({ query }: { query: Query }) {
  const { session } = useSurroundings();
  const { value: found, error, reload } = useLoaded(readSettings, "settings");
  const [edited, setEdited] = useState<SettingRow>();
  const settings = found?.settings;
  useIdleFeed(reload);
  const words = useRef<HTMLInputElement>(null);
  const isAll = query.all === "true";
  const text = query.words ?? "";
  const show = (more: Query) => {
    const kept = Object.entries({ ...query, ...more }).filter(([, value]) => value !== "");
    goTo(linkTo(["settings"], Object.fromEntries(kept)));
  };
  // A search also finds settings that have their default values.
  const shown = settings
    ?.filter((setting) => isAll || text !== "" || differs(setting))
    .filter(({ section, key, meaning }) =>
      `[${section}] ${key} ${meaning}`.toLowerCase().includes(text.toLowerCase()),
    );
  return (
    <>
      <div class="page-head">
        <h1>Settings</h1>
        {settings !== undefined && (
          <span class="section-note" role="status">
            {formatCount(settings.filter(differs).length, "setting differs", "settings differ")}, of{" "}
            {settings.length} on <Foreign text={found?.node ?? ""} />
          </span>
        )}
      </div>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          show({ words: words.current?.value ?? "" });
        }}
      >
        <label class="field">
          Name or description
          <input ref={words} defaultValue={text} autoComplete="off" />
        </label>
        <button type="submit">Find</button>
        <label class="check">
          <input
            type="checkbox"
            checked={isAll}
            onChange={({ currentTarget }) => show({ all: currentTarget.checked ? "true" : "" })}
          />
          Include defaults
        </label>
      </form>
      <Problem error={error} />
      {shown !== undefined && shown.length > 0 && (
        <Table
          label="Settings"
          columns={session.changes ? [...COLUMNS, { name: "Edit", isHidden: true }] : COLUMNS}
        >
          {shown.map((setting) => (
            <Row
              key={`${setting.section} ${setting.key}`}
              setting={setting}
              onEdit={session.changes ? () => setEdited(setting) : undefined}
            />
          ))}
        </Table>
      )}
      {found !== undefined && edited !== undefined && (
        <SettingDialog
          node={found.node}
          setting={edited}
          onChange={reload}
          onClose={() => setEdited(undefined)}
        />
      )}
      {shown?.length === 0 && <p class="section-note">No settings match.</p>}
    </>
  );
}

function Row({
  setting,
  onEdit,
}: {
  setting: SettingRow;
  /** Opens the dialog for the setting; absent for read-only users. */
  onEdit: (() => void) | undefined;
}) {
  const { section, key, value, known, meaning, values, live } = setting;
  return (
    <tr>
      <Cell name="Section" isWide className="setting-name">
        <Foreign text={section} />
      </Cell>
      <th scope="row" class="setting-name">
        <Foreign text={key} />
      </th>
      <Cell name="Value" className={differs(setting) ? "differs" : ""}>
        {value === "" ? (
          <span class="nothing">empty</span>
        ) : (
          <Foreign text={value === null ? defaultOf(setting) : withUnit(value, setting)} />
        )}
      </Cell>
      <Cell name="Default">
        <Foreign text={defaultOf(setting)} />
      </Cell>
      <Cell name="Description" isWide>
        {meaning}
        {values !== null && values !== "true, false" && (
          <span class="section-note"> ({values})</span>
        )}
      </Cell>
      <Cell name="Takes effect">
        {known ? live ? "immediately" : "after a restart" : <span class="badge">no effect</span>}
      </Cell>
      {onEdit !== undefined && (
        <Cell name="">
          <button
            type="button"
            class="quiet"
            aria-label={`Edit [${section}] ${key}`}
            onClick={onEdit}
          >
            Edit
          </button>
        </Cell>
      )}
    </tr>
  );
}

function differs({ value, default: fallback }: SettingRow): boolean {
  return value !== null && value !== fallback;
}
