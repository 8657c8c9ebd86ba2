/** Requests and their answers as data, so that one table can judge us, and a CouchDB by its URL. */
import { expect, test } from "vitest";
import type { AskOptions, OpenApi } from "./api.fixture.ts";

export interface Row extends AskOptions {
  /** A sentence about what is answered. */
  readonly name: string;
  /** `GET /films`. */
  readonly ask: string;
  readonly status: number;
  /** The whole body as JSON. */
  readonly json?: unknown;
  /** Members that the body has among others. */
  readonly has?: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** Headers of the answer. */
  readonly answers?: Readonly<Record<string, string>>;
}

/** Runs the rows one by one, each against a fresh API. */
export function testRows(open: () => Promise<OpenApi>, rows: readonly Row[]): void {
  test.each(rows.map((row) => [row.name, row] as const))("%s", async (_, row) => {
    const { ask, events } = await open();
    const answer = await ask(row.ask, row);
    expect(answer.json ?? answer.text).toEqual(row.json ?? answer.json ?? answer.text);
    expect(answer.status).toBe(row.status);
    if (row.has !== undefined) expect(answer.json).toMatchObject(row.has);
    if (row.answers !== undefined) expect(answer.headers).toMatchObject(row.answers);
    expect(events.filter(({ name }) => name === "api.request-failed")).toEqual([]);
  });
}

/** CouchDB's form of an error. */
export function refusal(status: number, error: string, reason: string) {
  return { status, json: { error, reason } };
}
