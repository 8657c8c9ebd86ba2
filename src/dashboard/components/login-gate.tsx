/**
 * Logins that have to wait, because a server rejected an earlier login or has locked the account.
 */
import type { GatedLoginPage, LoginGate } from "../../contract/index.ts";
import { formatCount, formatNumber } from "../base/format.ts";
import { Cell, type Column, Table } from "./table.tsx";
import { Foreign, Moment } from "./text.tsx";

const COLUMNS: readonly Column[] = [
  { name: "Server" },
  { name: "Account" },
  { name: "Status" },
  { name: "Answer" },
  { name: "Since" },
  { name: "Next attempt" },
  { name: "Jobs", isNumber: true },
];

const STATUS = { refused: "login rejected", locked: "account locked" } as const;

/** Describes the login for which a job waits. */
export function LoginWait({ gate }: { gate: LoginGate | null | undefined }) {
  // Absent in the response of an older node.
  if (gate == null) return null;
  const { host, username, status, reason, next_attempt } = gate;
  return (
    <p class="section-note">
      Waiting to log in to <Foreign text={host} />
      {username !== "" && (
        <>
          {" "}
          as <Foreign text={username} />
        </>
      )}
      : {STATUS[status]}
      {reason !== "" && (
        <>
          {" "}
          (<Foreign text={reason} />)
        </>
      )}
      . Next attempt: <Moment time={next_attempt} />
    </p>
  );
}

export function GatedLogins({ page: { logins, total_rows: total } }: { page: GatedLoginPage }) {
  if (total === 0) return null;
  return (
    <section aria-labelledby="logins-title">
      <h2 id="logins-title">Waiting logins</h2>
      <p class="section-note">
        {`Logins to ${formatCount(total, "account")} are delayed so that the servers do not lock the accounts. Jobs with new credentials log in immediately.`}
      </p>
      <Table label="Rejected accounts" columns={COLUMNS}>
        {logins.map(({ host, username, status, reason, since, next_attempt, jobs }) => (
          <tr key={`${host} ${username}`}>
            <th scope="row">
              <Foreign text={host} />
            </th>
            <Cell name="Account">
              {username === "" ? <span class="nothing">Key</span> : <Foreign text={username} />}
            </Cell>
            <Cell name="Status">{STATUS[status]}</Cell>
            <Cell name="Answer">
              <Foreign text={reason} />
            </Cell>
            <Cell name="Since">
              <Moment time={since} />
            </Cell>
            <Cell name="Next attempt">
              <Moment time={next_attempt} />
            </Cell>
            <Cell name="Jobs" isNumber>
              {jobs === null ? "Unknown" : formatNumber(jobs)}
            </Cell>
          </tr>
        ))}
      </Table>
    </section>
  );
}
