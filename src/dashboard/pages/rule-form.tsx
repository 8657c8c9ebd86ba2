/** Form for creating or changing a rule as JSON, with a preview of its effect. */
import { useId, useRef, useState } from "preact/hooks";
import { isJsonObject, parseJson } from "../../base/index.ts";
import type { RulePlan } from "../../contract/index.ts";
import { planRule, putRule, type RuleBody } from "../api/rules.ts";
import { useFeed, useSurroundings } from "../base/context.ts";
import { visibleJson } from "../base/json.ts";
import { goTo } from "../base/location.ts";
import { NEW_RULE } from "../base/rule-body.ts";
import { linkTo } from "../base/view.ts";
import { Problem } from "../components/text.tsx";
import { Plan } from "./rule-plan.tsx";

export function NewRulePage() {
  const { session } = useSurroundings();
  // This page uses no events; the feed only shows whether the connection is live.
  useFeed({ state: "failed" }, { event: () => {}, gap: () => {} });
  return (
    <>
      <h1>New rule</h1>
      {session.changes ? <RuleForm body={NEW_RULE} /> : <p class="problem">Read-only user.</p>}
    </>
  );
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
  const textId = useId();
  const noteId = `${textId}-note`;
  const [name, setName] = useState(fixedName ?? "");
  const [text, setText] = useState(() => visibleJson(body));
  /** Preview for the rule in the form. */
  const [plan, setPlan] = useState<RulePlan>();
  const [isAsking, setIsAsking] = useState(false);
  const [error, setError] = useState<unknown>();
  /** Number of edits, to ignore responses for an older text. */
  const version = useRef(0);
  const edit = (change: () => void) => {
    version.current++;
    change();
    setPlan(undefined);
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const asked = version.current;
    setIsAsking(true);
    setError(undefined);
    try {
      const wanted = parsed(text);
      if (plan === undefined) {
        const found = await planRule(name, wanted);
        if (version.current === asked) setPlan(found);
        return;
      }
      await putRule(name, wanted);
      announce(`The rule ${name} is stored`);
      goTo(linkTo(["rules", name]));
    } catch (failure) {
      if (version.current === asked) setError(failure);
    } finally {
      setIsAsking(false);
    }
  };
  return (
    <form class="form-parts rule-form" onSubmit={(event) => void submit(event)}>
      <label class="field">
        Name
        <input
          required
          readOnly={fixedName !== undefined}
          value={name}
          autoComplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => edit(() => setName(currentTarget.value))}
        />
        <span class="section-note">letters, digits, _, . and -</span>
      </label>
      <div class="field">
        <label for={textId}>Rule, JSON</label>
        <textarea
          id={textId}
          aria-describedby={noteId}
          rows={16}
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => edit(() => setText(currentTarget.value))}
        />
        <span id={noteId} class="section-note">
          Each database of the source gets a job if its name matches a pattern in "databases" and
          none in "except". In the target, {"{db}"} is replaced by the name, and {"{1}"}, {"{2}"} by
          the parts that match each *. Other members: design_documents, create_target, concurrency,
          options, delete (keep or stop). A secret that is shown as ***** is kept.
        </span>
      </div>
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

/** Parses the rule. Throws an Error with a message for the user if it is not a JSON object. */
function parsed(text: string): RuleBody {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (fault) {
    throw new Error(`Invalid JSON: ${fault instanceof Error ? fault.message : String(fault)}`);
  }
  if (isJsonObject(value)) return value;
  throw new Error("A rule must be a JSON object");
}
