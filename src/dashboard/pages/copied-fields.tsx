/** The parts of the replication form that select what is copied, and when. */
import type { FormFields, SelectionKind } from "../base/replication-form.ts";
import { SCHEDULE_KINDS, SCHEDULES, type ScheduleKind } from "../base/schedules.ts";
import { AreaField, CheckField, Part, TextField } from "../components/fields.tsx";

interface FieldsProps {
  readonly fields: FormFields;
  readonly onChange: (changed: Partial<FormFields>) => void;
}

export function CopiedFields({ fields, onChange }: FieldsProps) {
  return (
    <Part title="Documents to copy">
      <CheckField
        label="create_target"
        note="creates the target if it does not exist"
        value={fields.createTarget}
        onChange={(createTarget) => onChange({ createTarget })}
      />
      <Selected fields={fields} onChange={onChange} />
      <CheckField
        label="winning_revs_only"
        note="no conflicts: only the winning revision of each document"
        value={fields.winningRevisionsOnly}
        onChange={(winningRevisionsOnly) => onChange({ winningRevisionsOnly })}
      />
      <CheckField
        label="deleted: skip"
        note="skips deletions: the target keeps these documents"
        value={fields.skipsDeleted}
        onChange={(skipsDeleted) => onChange({ skipsDeleted })}
      />
      <TextField
        label="documents.max_bytes"
        value={fields.documentBytesMax}
        isOptional
        isNumber
        onChange={(documentBytesMax) => onChange({ documentBytesMax })}
        note="skips documents whose JSON exceeds this size in bytes; empty: no limit"
      />
      <TextField
        label="attachments.max_bytes"
        value={fields.attachmentBytesMax}
        isOptional
        isNumber
        onChange={(attachmentBytesMax) => onChange({ attachmentBytesMax })}
        note="skips documents with an attachment that exceeds this size in bytes; empty: no limit"
      />
      <TextField
        label="since_seq"
        value={fields.sinceSequence}
        isOptional
        onChange={(sinceSequence) => onChange({ sinceSequence })}
        note="update sequence of the source to start after"
      />
    </Part>
  );
}

function Selected({ fields: { selection, selected, queryParameters }, onChange }: FieldsProps) {
  const label = {
    doc_ids: "Ids, one per line",
    selector: "Selector, JSON",
    filter: "design/filter",
    all: "",
  };
  return (
    <>
      <label class="field">
        Documents
        <select
          value={selection}
          onChange={({ currentTarget }) =>
            onChange({ selection: currentTarget.value as SelectionKind, selected: "" })
          }
        >
          <option value="all">all</option>
          <option value="doc_ids">by id (doc_ids)</option>
          <option value="selector">matching a selector (selector)</option>
          <option value="filter">passed by a function of the source (filter)</option>
        </select>
      </label>
      {selection !== "all" && (
        <AreaField
          label={label[selection]}
          value={selected}
          onChange={(text) => onChange({ selected: text })}
        />
      )}
      {selection === "filter" && (
        <AreaField
          label="query_params, JSON"
          value={queryParameters}
          onChange={(text) => onChange({ queryParameters: text })}
        />
      )}
    </>
  );
}

export function TimeFields({ fields, onChange }: FieldsProps) {
  const { scheduleKind, schedule } = fields;
  const choose = (kind: ScheduleKind) => {
    const example = SCHEDULES[kind].example(Intl.DateTimeFormat().resolvedOptions().timeZone);
    // Time windows are for continuous replications, the other forms for one-shot ones.
    const continuous = kind === "none" ? fields.continuous : kind === "window";
    onChange({ scheduleKind: kind, schedule: example, continuous });
  };
  return (
    <Part title="When it runs">
      <label class="field">
        Runs
        <select
          value={scheduleKind}
          onChange={({ currentTarget }) => choose(currentTarget.value as ScheduleKind)}
        >
          {SCHEDULE_KINDS.map((kind) => (
            <option key={kind} value={kind}>
              {SCHEDULES[kind].words}
            </option>
          ))}
        </select>
      </label>
      {scheduleKind !== "none" && (
        <TextField
          label="schedule"
          value={schedule}
          onChange={(text) => onChange({ schedule: text })}
          note={SCHEDULES[scheduleKind].note}
        />
      )}
      <CheckField
        label="continuous"
        note="keeps running after it has caught up"
        value={fields.continuous}
        onChange={(continuous) => onChange({ continuous })}
      />
    </Part>
  );
}
