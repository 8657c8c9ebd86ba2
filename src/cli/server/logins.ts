/** Formats accounts whose logins have to wait. */
import type { GatedLoginPage, LoginGate } from "../../contract/index.ts";
import { table } from "../terminal/table.ts";
import { answerWith } from "./answers.ts";

export function printLogins(answer: unknown): string {
  const { logins, total_rows: total } = answerWith<GatedLoginPage>(answer, { logins: "array" });
  if (logins.length === 0) return "no logins are delayed\n";
  const rows = logins.map(({ host, username, status, jobs, next_attempt }) => [
    host,
    username === "" ? "(key)" : username,
    status,
    String(jobs ?? "-"),
    next_attempt.slice(5, 19).replace("T", " "),
  ]);
  const notes = [
    [],
    ...logins.map(({ since, reason }) => [`since ${since}${reason === "" ? "" : `: ${reason}`}`]),
  ];
  const heading = ["SERVER", "ACCOUNT", "STATUS", "JOBS", "NEXT (UTC)"];
  const text = table([heading, ...rows], { soft: [0, 1], whole: [4], notes });
  return logins.length < total ? `${text}${logins.length} of ${total} accounts\n` : text;
}

/** Describes the login for which a job waits, and the server's reason. */
export function loginWait({ host, username, status, reason, next_attempt }: LoginGate): string {
  const why = status === "locked" ? "the server has locked the account" : "the login was rejected";
  const words = reason === "" ? "" : ` (${reason})`;
  const account = username === "" ? "" : ` as "${username}"`;
  return `next login to ${host}${account} not before ${next_attempt}: ${why}${words}`;
}
