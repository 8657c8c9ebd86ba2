/** The settings of the node that the page came from: what they are, what they would be by themselves, and which of them differ. */
import { useRef } from "preact/hooks";
import { readSettings, type SettingRow } from "../api/settings.ts";
import type { Query } from "../api/types.ts";
import { useFeed } from "../base/context.ts";
import { formatCount } from "../base/format.ts";
import { goTo } from "../base/location.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { type Column, Table } from "../components/table.tsx";
import { Foreign, Problem } from "../components/text.tsx";

const COLUMNS: readonly Column[] = [
  { name: "Section" },
  { name: "Key" },
  { name: "Value" },
  { name: "Default" },
  { name: "Note", isHidden: true },
];

export function SettingsPage({ query }: { query: Query }) {
  const { value: settings, error, reload } = useLoaded(readSettings, "settings");
  // Says whether the connection stands.
  useFeed({}, { event: () => {}, gap: reload });
  const words = useRef<HTMLInputElement>(null);
  const isAll = query.all === "true";
  const text = query.words ?? "";
  const show = (more: Query) => {
    const kept = Object.entries({ ...query, ...more }).filter(([, value]) => value !== "");
    goTo(linkTo(["settings"], Object.fromEntries(kept)));
  };
  const shown = settings
    ?.filter((setting) => isAll || differs(setting))
    .filter(({ section, key }) => `[${section}] ${key}`.includes(text));
  return (
    <>
      <div class="page-head">
        <h1>Settings</h1>
        {settings !== undefined && (
          <span class="section-note" role="status">
            {formatCount(settings.filter(differs).length, "setting")} of {settings.length} differ
            from the defaults
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
          Section or key
          <input ref={words} defaultValue={text} autoComplete="off" />
        </label>
        <button type="submit">Find</button>
        <label class="check">
          <input
            type="checkbox"
            checked={isAll}
            onChange={({ currentTarget }) => show({ all: currentTarget.checked ? "true" : "" })}
          />
          Also those that have their default
        </label>
      </form>
      <Problem error={error} />
      {shown !== undefined && shown.length > 0 && (
        <Table label="Settings" columns={COLUMNS} isStacked>
          {shown.map((setting) => (
            <Row key={`${setting.section} ${setting.key}`} setting={setting} />
          ))}
        </Table>
      )}
      {shown?.length === 0 && <p class="section-note">No setting differs, or none matches.</p>}
    </>
  );
}

function Row({ setting }: { setting: SettingRow }) {
  const { section, key, value, default: fallback, known } = setting;
  return (
    <tr>
      <td class="setting-name">
        <Foreign text={section} />
      </td>
      <th scope="row" class="setting-name">
        <Foreign text={key} />
      </th>
      <td class={differs(setting) ? "differs" : ""}>
        <Value text={value ?? fallback} />
      </td>
      <td class="setting-default">
        <Value text={fallback} />
      </td>
      <td>
        {!known && <span class="badge">without effect here</span>}
        {known && differs(setting) && <span class="badge badge-running">set</span>}
      </td>
    </tr>
  );
}

function Value({ text }: { text: string | null }) {
  if (text === null) return <span class="nothing">none</span>;
  if (text === "") return <span class="nothing">empty</span>;
  return <Foreign text={text} />;
}

function differs({ value, default: fallback }: SettingRow): boolean {
  return value !== null && value !== fallback;
}
