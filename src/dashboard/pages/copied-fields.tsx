/** The parts of the replication form that select what is copied, and when. */
import type {
  FormFields,
  JobFields,
  OptionFields,
  SelectionKind,
} from "../base/replication-form.ts";
import { SCHEDULE_KINDS, SCHEDULES, type ScheduleKind } from "../base/schedules.ts";
import { AreaField, CheckField, SelectField, TextField } from "../components/fields.tsx";

interface FieldsProps<Fields> {
  readonly fields: Fields;
  readonly onChange: (changed: Partial<Fields>) => void;
}

const SELECTIONS: readonly (readonly [SelectionKind, string])[] = [
  ["all", "all"],
  ["doc_ids", "by id (doc_ids)"],
  ["selector", "by selector (selector)"],
  ["filter", "by filter function (filter)"],
];

export function SelectedFields({
  fields: { selection, selected, queryParameters },
  onChange,
}: FieldsProps<FormFields>) {
  return (
    <>
      <SelectField
        field="selection"
        label="Documents"
        value={selection}
        choices={SELECTIONS}
        onChange={(kind) => onChange({ selection: kind, selected: "" })}
      />
      {selection !== "all" && (
        <AreaField
          field={selection}
          value={selected}
          onChange={(text) => onChange({ selected: text })}
        />
      )}
      {selection === "filter" && (
        <AreaField
          field="query_params"
          value={queryParameters}
          onChange={(text) => onChange({ queryParameters: text })}
        />
      )}
    </>
  );
}

/** Form fields that select the documents to be skipped. */
export function SkippedFields({
  fields: { skipsDeleted, documentBytesMax, attachmentBytesMax },
  onChange,
}: FieldsProps<OptionFields>) {
  return (
    <>
      <CheckField
        field="deleted"
        note="Deletions in the source are not copied, so the target keeps the documents."
        value={skipsDeleted}
        onChange={(changed) => onChange({ skipsDeleted: changed })}
      />
      <TextField
        field="documents"
        value={documentBytesMax}
        isNumber
        onChange={(changed) => onChange({ documentBytesMax: changed })}
        note="Documents whose JSON is larger are skipped. Leave empty for no limit."
      />
      <TextField
        field="attachments"
        value={attachmentBytesMax}
        isNumber
        onChange={(changed) => onChange({ attachmentBytesMax: changed })}
        note="Documents with a larger attachment are skipped. Leave empty for no limit."
      />
    </>
  );
}

/** Tags of jobs, and labels of the nodes that run them. */
export function TagFields({ fields: { tags, runOn }, onChange }: FieldsProps<JobFields>) {
  return (
    <>
      <TextField
        field="tags"
        value={tags}
        placeholder="team:billing, env:prod"
        onChange={(text) => onChange({ tags: text })}
        note="Used in filters, metrics and alerts. Separate several tags with commas."
      />
      <TextField
        field="run_on"
        value={runOn}
        placeholder="site:berlin"
        onChange={(text) => onChange({ runOn: text })}
        note="A node must have all of these labels to run the job. Separate several with commas."
      />
    </>
  );
}

/** Names of the jobs to wait for. */
export function AfterField({
  fields: { after },
  note,
  placeholder,
  onChange,
}: FieldsProps<Pick<JobFields, "after">> & { note: string; placeholder: string }) {
  return (
    <AreaField
      field="after"
      rows={3}
      value={after}
      placeholder={placeholder}
      onChange={(text) => onChange({ after: text })}
      note={note}
    />
  );
}

/** Choice of the schedule. When the user chooses another kind, `onChange` receives an example. */
export function ScheduleFields({
  fields: { scheduleKind, schedule },
  onChange,
}: FieldsProps<Pick<OptionFields, "scheduleKind" | "schedule">>) {
  const choose = (kind: ScheduleKind) => {
    const zone = Intl.DateTimeFormat("en").resolvedOptions().timeZone;
    onChange({ scheduleKind: kind, schedule: SCHEDULES[kind].example(zone) });
  };
  return (
    <>
      <SelectField
        field="runs"
        label="Runs"
        value={scheduleKind}
        choices={SCHEDULE_KINDS.map((kind) => [kind, SCHEDULES[kind].words] as const)}
        onChange={choose}
      />
      {scheduleKind !== "none" && (
        <TextField
          field="schedule"
          value={schedule}
          onChange={(text) => onChange({ schedule: text })}
          note={SCHEDULES[scheduleKind].note}
        />
      )}
    </>
  );
}
