import { expect, onTestFinished, test, vi } from "vitest";
import { RequestFailedError } from "../../http-client/index.ts";
import { retryReporter } from "./describe-error.ts";

const refused = (cause: string) =>
  new RequestFailedError({ method: "GET", url: "http://host/db", cause });

test("each kind of failure is reported once, with the server's status or the cause", () => {
  let written = "";
  const spy = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    written += text;
    return true;
  });
  onTestFinished(() => spy.mockRestore());
  const report = retryReporter();
  for (const status of [503, 503, 500]) report({ error: undefined, status });
  for (const cause of ["ECONNREFUSED", "ECONNREFUSED", "ECONNRESET"]) {
    report({ error: refused(cause), status: undefined });
  }
  const lines = written.trimEnd().split("\n");
  expect(lines).toHaveLength(4);
  expect(lines[0]).toBe("tandem: a server responded with 503; retrying");
  expect(lines[1]).toBe("tandem: a server responded with 500; retrying");
  for (const line of lines.slice(2)) expect(line).toMatch(/^tandem: .*host.*; retrying$/);
  expect(lines[2]).not.toBe(lines[3]);
});
