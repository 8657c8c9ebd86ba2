/** A rule: its definition and the state of its databases, with controls to change or remove it. */
import { useState } from "preact/hooks";
import { JOB_STATES, type Rule, type RuleStatus, STATE_WORDS } from "../../contract/index.ts";
import { client, RequestError } from "../api/request.ts";
import type { Query } from "../api/types.ts";
import { useIdleFeed, useRefresh, useSurroundings } from "../base/context.ts";
import { capitalized, formatCount, formatNumber, visibleText } from "../base/format.ts";
import { visibleJson } from "../base/json.ts";
import { goTo } from "../base/location.ts";
import { bodyOf } from "../base/rule-fields.ts";
import { useTitle } from "../base/title.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { linkTo } from "../base/view.ts";
import { Dialog, DialogButtons } from "../components/dialog.tsx";
import { Fact, Foreign, Moment, Problem, Proven } from "../components/text.tsx";
import { RuleForm } from "./rule-form.tsx";
import { Plan } from "./rule-plan.tsx";
import { Count, LongestLag, Way } from "./rules.tsx";

const REFRESH_MS = 5_000;

const FOLLOWED: Readonly<Record<string, string>> = {
  feed: "from the feed of database updates",
  lists: "by regularly listing the databases",
};

export function RulePage({ name, query }: { name: string; query: Query }) {
  const { session } = useSurroundings();
  const {
    value: rule,
    error,
    reload,
  } = useLoaded((signal) => client.rules.get(name, { signal }), name);
  const isEdit = query.edit === "true" && session.changes;
  const failing = rule?.status.failing ?? 0;
  useTitle(name, failing > 0 ? `${formatNumber(failing)} failing` : "", "Rules");
  useIdleFeed(reload);
  useRefresh(reload, REFRESH_MS, isEdit);
  return (
    <>
      <p class="trail">
        <a href={linkTo(["rules"])}>Rules</a> / <Foreign text={name} />
      </p>
      <h1>
        <Foreign text={name} />
      </h1>
      {error instanceof RequestError && error.status === 404 ? (
        <p class="problem" role="alert">
          Rule not found. It may have been removed.
        </p>
      ) : (
        <Problem error={error} />
      )}
      {rule !== undefined && isEdit && <RuleForm name={name} body={bodyOf(rule)} />}
      {rule !== undefined && !isEdit && <Details rule={rule} />}
    </>
  );
}

function Details({ rule }: { rule: Rule }) {
  const { session } = useSurroundings();
  const [isRemoving, setIsRemoving] = useState(false);
  const { name, status } = rule;
  const close = (isDone: boolean) => {
    setIsRemoving(false);
    if (isDone) goTo(linkTo(["rules"]));
  };
  return (
    <>
      <p>
        <Way rule={rule} />
      </p>
      <div class="commands">
        <a class="button" href={linkTo(["jobs"], { rule: name })}>
          Jobs
        </a>
        {session.changes && (
          <>
            <a class="button" href={linkTo(["rules", name], { edit: "true" })}>
              Edit
            </a>
            <button type="button" class="danger" onClick={() => setIsRemoving(true)}>
              Remove
            </button>
          </>
        )}
      </div>
      {status.last_error !== null && (
        <section class="failure" aria-labelledby="failure-title">
          <h2 id="failure-title">Source databases cannot be listed</h2>
          <p>
            <Foreign text={`${status.last_error.error}: ${status.last_error.reason}`} />
          </p>
        </section>
      )}
      <Figures name={name} status={status} />
      <div class="columns">
        <section class="panel" aria-labelledby="rule-title">
          <h2 id="rule-title">Rule as submitted</h2>
          <pre>{visibleJson(bodyOf(rule))}</pre>
        </section>
        {status.cannot_copy > 0 && <Faults status={status} />}
      </div>
      {isRemoving && <RemoveDialog name={name} onClose={close} />}
    </>
  );
}

function Figures({ name, status }: { name: string; status: RuleStatus }) {
  return (
    <dl class="facts">
      <Fact name="Matching databases">
        {status.databases === null ? "not listed yet" : formatNumber(status.databases)}
      </Fact>
      <Fact name="Jobs">
        <Count rule={name} count={status.jobs} />
      </Fact>
      {JOB_STATES.map((state) => (
        <Fact key={state} name={capitalized(STATE_WORDS[state])}>
          <Count rule={name} count={status.states[state]} filter={{ state }} />
        </Fact>
      ))}
      <Fact name="Failing">
        <Count rule={name} count={status.failing} filter={{ failing: "true" }} />
      </Fact>
      <Fact name="Failed documents">
        <Count rule={name} count={status.left_behind} filter={{ left_behind: "true" }} />
      </Fact>
      <Fact name="Parked">
        <Count rule={name} count={status.parked} filter={{ parked: "true" }} />
      </Fact>
      <Fact name="Longest known lag">
        <LongestLag status={status} />
      </Fact>
      <Fact name="Listed">
        <Moment time={status.listed} />
      </Fact>
      <Fact name="New databases detected">
        <Proven
          value={status.followed_by && (FOLLOWED[status.followed_by] ?? status.followed_by)}
        />
      </Fact>
      <Fact name="Saved">
        <Moment time={status.changed} /> by{" "}
        <Foreign text={status.owner ?? "anonymous administrator"} />
      </Fact>
    </dl>
  );
}

function Faults({ status: { cannot_copy: count, faults } }: { status: RuleStatus }) {
  return (
    <section class="panel" aria-labelledby="faults-title">
      <h2 id="faults-title">{formatCount(count, "database")} cannot be copied</h2>
      <dl>
        {faults.map(({ database, reason }) => (
          <Fact key={database} name={visibleText(database)}>
            <Foreign text={reason} />
          </Fact>
        ))}
      </dl>
      {count > faults.length && (
        <p class="section-note">and {formatNumber(count - faults.length)} more</p>
      )}
    </section>
  );
}

function RemoveDialog({
  name,
  onClose,
}: {
  name: string;
  /** Called when the dialog closes. `isDone`: the rule was removed. */
  onClose: (isDone: boolean) => void;
}) {
  const { announce } = useSurroundings();
  const plan = useLoaded((signal) => client.rules.planRemoval(name, { signal }), name);
  const [isSure, setIsSure] = useState(false);
  const [error, setError] = useState<unknown>();
  const remove = async () => {
    setError(undefined);
    try {
      await client.rules.remove(name);
      announce(`Rule ${name} removed; its jobs are being cancelled`);
      onClose(true);
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <Dialog title="Remove a rule" onClose={() => onClose(false)}>
      <p>The jobs of the rule are cancelled. Copied data is kept.</p>
      {plan.value === undefined ? <p>Counting…</p> : <Plan plan={plan.value} />}
      <label class="check">
        <input
          type="checkbox"
          checked={isSure}
          onChange={({ currentTarget }) => setIsSure(currentTarget.checked)}
        />
        I understand that this cannot be undone
      </label>
      <Problem error={error ?? plan.error} />
      <DialogButtons leave="Keep the rule" onLeave={() => onClose(false)}>
        <button
          type="button"
          class="danger"
          disabled={!isSure || plan.value === undefined}
          onClick={() => void remove()}
        >
          Remove the rule
        </button>
      </DialogButtons>
    </Dialog>
  );
}
