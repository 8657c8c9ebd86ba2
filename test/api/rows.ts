/**
 * Requests and expected responses as data, so that one table tests this API and CouchDB 3.5.
 * CouchDB's responses come from the server in `COUCHDB_URL` if this is set, and otherwise from
 * recordings (`recording.ts`).
 */
import { describe, expect, test } from "vitest";
import {
  type Answer,
  type Asked,
  type AskOptions,
  type OpenApi,
  openFilms,
} from "./api.fixture.ts";
import { COUCHDB_URL, openCouchdbFilms } from "./couchdb.fixture.ts";
import { IS_RECORDING, record, recordedAnswer } from "./recording.ts";

export interface Row extends AskOptions {
  /** Name of the test: a sentence that describes the response. */
  readonly name: string;
  /** The request, such as `GET /films`. */
  readonly ask: string;
  readonly status: number;
  /** Expected body, as JSON. */
  readonly json?: unknown;
  /** Members that the body must contain. The body can contain others. */
  readonly has?: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** Expected headers of the response. */
  readonly answers?: Readonly<Record<string, string>>;
  /** Reason why CouchDB 3.5 responds differently. The test checks that its response differs. */
  readonly differs?: string;
  /** Reason why the row is not tested with CouchDB. */
  readonly onlyHere?: string;
}

/** Prepares the database for the rows. `open` opens an API with an empty database `films`. */
export type Scene = (open: () => Promise<Asked>) => Promise<Asked>;

export const FILMS: Scene = (open) => open();

/**
 * Runs the rows one by one, each in a new scene. `openOurs` opens this API with a database `films`.
 * If `onlyHere` gives a reason, the rows are not tested with CouchDB.
 */
export function testRows(
  scene: Scene,
  rows: readonly Row[],
  {
    openOurs = openFilms,
    onlyHere,
  }: { readonly openOurs?: () => Promise<OpenApi>; readonly onlyHere?: string } = {},
): void {
  test.each(rows.map((row) => [row.name, row] as const))("%s", async (_, row) => {
    const opened: OpenApi[] = [];
    const { ask } = await scene(async () => {
      const films = await openOurs();
      opened.push(films);
      return films;
    });
    expectAnswer(await ask(row.ask, row), row);
    for (const { events } of opened) {
      expect(events.filter(({ name }) => name === "api.request-failed")).toEqual([]);
    }
  });
  const asked = rows.filter((row) => (row.onlyHere ?? onlyHere) === undefined);
  describe.runIf(asked.length > 0)("CouchDB", () => {
    test.each(asked.map((row) => [row.name, row] as const))("%s", async (_, row) => {
      const answer =
        COUCHDB_URL === undefined ? recordedAnswer(row.ask, row) : await askCouchdb(scene, row);
      if (row.differs === undefined) expectAnswer(answer, row);
      else expect(() => expectAnswer(answer, row), "It answers as we do").toThrow();
    });
  });
}

async function askCouchdb(scene: Scene, row: Row): Promise<Answer> {
  const { ask } = await scene(openCouchdbFilms);
  const answer = await ask(row.ask, row);
  if (IS_RECORDING) record(row.ask, row, answer);
  return answer;
}

function expectAnswer(answer: Answer, row: Row): void {
  const shown = answer.json ?? answer.text;
  expect(shown).toEqual(row.json ?? shown);
  expect({ status: answer.status, shown }).toEqual({ status: row.status, shown });
  if (row.has !== undefined) expect(answer.json).toMatchObject(row.has);
  if (row.answers !== undefined) {
    expect(lowerCased(answer.headers)).toMatchObject(lowerCased(row.answers));
  }
}

function lowerCased(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

/** Returns an error response in CouchDB's format. */
export function refusal(status: number, error: string, reason: string) {
  return { status, json: { error, reason } };
}
