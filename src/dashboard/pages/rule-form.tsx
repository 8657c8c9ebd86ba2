/** Form for creating or changing a rule, also as JSON, with a preview of its effect. */
import { useMemo, useRef, useState } from "preact/hooks";
import { isJsonObject, parseJson } from "../../base/index.ts";
import type { RuleBody } from "../../client/index.ts";
import type { RulePlan } from "../../contract/index.ts";
import { client } from "../api/request.ts";
import { useIdleFeed, useSurroundings } from "../base/context.ts";
import { fieldNamed } from "../base/field-labels.ts";
import { visibleJson } from "../base/json.ts";
import { goTo } from "../base/location.ts";
import {
  NEW_RULE,
  type RuleFields,
  ruleFieldsOf,
  ruleOf,
  type SecurityKind,
} from "../base/rule-fields.ts";
import { linkTo } from "../base/view.ts";
import {
  AreaField,
  CheckField,
  FieldErrors,
  FoldedPart,
  OptionFields,
  Part,
  SelectField,
  TextField,
  useFirstError,
} from "../components/fields.tsx";
import { Problem } from "../components/text.tsx";
import { AfterField, ScheduleFields, SkippedFields, TagFields } from "./copied-fields.tsx";
import { Endpoint } from "./endpoint-fields.tsx";
import { Plan } from "./rule-plan.tsx";

const SECURITY_WORDS: readonly (readonly [SecurityKind, string])[] = [
  ["none", "not copied"],
  ["created", "copied to targets that the rule creates"],
  ["matching", "also copied to existing targets that match"],
];
/** Form field of the rule's name, which is not a member of the rule. */
const NAME = "name";
/** Form field of the rule as JSON. */
const JSON_FIELD = "json";

export function NewRulePage() {
  const { session } = useSurroundings();
  useIdleFeed(() => {}, { state: "failed" });
  return (
    <>
      <h1>New rule</h1>
      {session.changes ? <RuleForm body={NEW_RULE} /> : <p class="problem">Read-only user.</p>}
    </>
  );
}

/** The rule as edited: its fields, or JSON from which no fields can be read. */
interface Edited {
  readonly name: string;
  /** The rule from which the fields were last read. */
  readonly original: RuleBody;
  readonly fields: RuleFields;
  /** JSON as typed; absent if the fields were edited last. */
  readonly json: string | undefined;
}

export function RuleForm({
  name: fixedName,
  body,
}: {
  /** Name of the rule; absent for a new rule, for which the user enters one. */
  name?: string;
  body: RuleBody;
}) {
  const { announce } = useSurroundings();
  const [edited, setEdited] = useState<Edited>(() => ({
    ...{ name: fixedName ?? "", original: body, fields: ruleFieldsOf(body), json: undefined },
  }));
  const { name, fields, original, json } = edited;
  const made = useMemo(() => ruleOf(fields, original), [fields, original]);
  const parsed = useMemo(() => (json === undefined ? undefined : parsedRule(json)), [json]);
  /** Preview for the rule in the form. */
  const [plan, setPlan] = useState<RulePlan>();
  const [isAsking, setIsAsking] = useState(false);
  /** Whether the user has asked for a preview. From then on, missing values are errors. */
  const [isTried, setIsTried] = useState(false);
  const [error, setError] = useState<unknown>();
  const { form, focusFirstError } = useFirstError();
  /** Number of edits. A response is ignored if it was requested before the last edit. */
  const version = useRef(0);
  const edit = (changed: Partial<Edited>) => {
    version.current++;
    setEdited((before) => ({ ...before, ...changed }));
    setPlan(undefined);
    setError(undefined);
  };
  const change = (changed: Partial<RuleFields>) =>
    edit({ fields: { ...fields, ...changed }, json: undefined });
  const editJson = (text: string) => {
    const { rule } = parsedRule(text);
    const known = rule === undefined ? {} : { original: rule, fields: ruleFieldsOf(rule) };
    edit({ ...known, json: text });
  };
  const errors = new Map<string, string>();
  const field = error instanceof Error ? fieldNamed(error.message) : undefined;
  if (field !== undefined && error instanceof Error) errors.set(field, error.message);
  if (parsed === undefined) {
    for (const [name, { message, isMissing }] of made.errors) {
      if (isTried || !isMissing) errors.set(name, message);
    }
  } else if (parsed.fault !== undefined) errors.set(JSON_FIELD, parsed.fault);
  if (isTried && name.trim() === "") errors.set(NAME, "Enter a name");

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setIsTried(true);
    focusFirstError();
    const wanted = parsed === undefined ? made.document : parsed.rule;
    const isFine = parsed === undefined ? made.errors.size === 0 : parsed.rule !== undefined;
    if (wanted === undefined || !isFine || name.trim() === "") return;
    const asked = version.current;
    setIsAsking(true);
    setError(undefined);
    try {
      if (plan === undefined) {
        const found = await client.rules.plan(name, wanted);
        if (version.current === asked) setPlan(found);
        return;
      }
      await client.rules.put(name, wanted);
      announce(`Rule ${name} saved`);
      goTo(linkTo(["rules", name]));
    } catch (failure) {
      if (version.current !== asked) return;
      setError(failure);
      focusFirstError();
    } finally {
      setIsAsking(false);
    }
  };
  const canKeep = (side: "source" | "target") => ruleFieldsOf(original)[side].login === "kept";
  return (
    <form
      ref={form}
      noValidate
      class="form-parts rule-form"
      onSubmit={(event) => void submit(event)}
    >
      <FieldErrors value={errors}>
        <TextField
          field={NAME}
          value={name}
          isFixed={fixedName !== undefined}
          onChange={(changed) => edit({ name: changed })}
          note="Letters, digits, _, . and -, starting with a letter or digit."
        />
        <Endpoint
          side="source"
          placeholder="https://a.example/"
          note="URL of a server, or “local” for the databases of this server."
          fields={fields.source}
          canKeep={canKeep("source")}
          onChange={(source) => change({ source })}
        />
        <Part title="Databases">
          <AreaField
            field="databases"
            rows={3}
            note="Name patterns such as user-*, one per line."
            value={fields.databases}
            onChange={(databases) => change({ databases })}
          />
          <AreaField
            field="except"
            rows={2}
            note="Name patterns to exclude, one per line."
            value={fields.except}
            onChange={(except) => change({ except })}
          />
        </Part>
        <Endpoint
          side="target"
          placeholder="https://b.example/{db}"
          note="URL or local name. {db} stands for the name of the source database, {1} for the text matched by the first *, {2} by the second, and so on."
          fields={fields.target}
          canKeep={canKeep("target")}
          onChange={(target) => change({ target })}
        >
          <CheckField
            field="create_target"
            value={fields.createTarget}
            onChange={(createTarget) => change({ createTarget })}
          />
        </Endpoint>
        <FoldedPart title="Scope and schedule" isOpen={fixedName !== undefined}>
          <CheckField
            field="pair"
            note="Also copies from each target to its source, in the same job."
            value={fields.pair}
            onChange={(pair) => change({ pair })}
          />
          <CheckField
            field="design_documents"
            value={fields.designDocuments}
            onChange={(designDocuments) => change({ designDocuments })}
          />
          <SelectField
            field="security"
            value={fields.security}
            choices={SECURITY_WORDS}
            onChange={(security) => change({ security })}
          />
          {fields.security === "matching" && (
            <AreaField
              field="security.patterns"
              label="Patterns of existing targets whose security objects are overwritten (one per line)"
              value={fields.overwritten}
              onChange={(overwritten) => change({ overwritten })}
            />
          )}
          <TextField
            field="concurrency"
            isNumber
            value={fields.concurrency}
            onChange={(concurrency) => change({ concurrency })}
            note="Maximum number of the rule's jobs that run at the same time. Leave empty for no limit."
          />
          <SelectField
            field="delete"
            value={fields.whenDeleted}
            choices={[
              ["keep", "keep its job, which will fail"],
              ["stop", "cancel its job and keep the copy"],
            ]}
            onChange={(whenDeleted) => change({ whenDeleted })}
          />
          <SkippedFields fields={fields} onChange={change} />
          <ScheduleFields fields={fields} onChange={change} />
          <AfterField
            fields={fields}
            placeholder="other-rule/{db}"
            note="Jobs that must complete or catch up before a job of this rule starts, one per line. {db} stands for the database of the waiting job."
            onChange={change}
          />
        </FoldedPart>
        <FoldedPart title="Tags and nodes" isOpen={`${fields.tags}${fields.runOn}` !== ""}>
          <TagFields fields={fields} onChange={change} />
        </FoldedPart>
        <FoldedPart title="Options" isOpen={Object.keys(fields.options).length > 0}>
          <OptionFields values={fields.options} onChange={(options) => change({ options })} />
        </FoldedPart>
        <FoldedPart title="JSON">
          <AreaField
            field={JSON_FIELD}
            label="Rule (JSON)"
            rows={16}
            note="Secrets shown as ***** are kept."
            value={json ?? visibleJson(made.document)}
            onChange={editJson}
          />
        </FoldedPart>
      </FieldErrors>
      <Problem error={error} />
      <div role="status">{plan !== undefined && <Plan plan={plan} />}</div>
      <div class="commands">
        <button type="submit" class="primary" disabled={isAsking}>
          {isAsking ? "Asking…" : plan === undefined ? "Preview" : "Save rule"}
        </button>
        <a class="button" href={linkTo(fixedName === undefined ? ["rules"] : ["rules", fixedName])}>
          Discard changes
        </a>
      </div>
    </form>
  );
}

type Parsed =
  | { readonly rule: RuleBody; readonly fault?: undefined }
  | { readonly rule?: undefined; readonly fault: string };

function parsedRule(text: string): Parsed {
  try {
    const rule = parseJson(text);
    return isJsonObject(rule) ? { rule } : { fault: "A rule must be a JSON object" };
  } catch (fault) {
    return { fault: `Invalid JSON: ${fault instanceof Error ? fault.message : String(fault)}` };
  }
}
