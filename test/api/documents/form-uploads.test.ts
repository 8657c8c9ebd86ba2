import { describe, expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";
import { FILMS, refusal, testRows } from "../rows.ts";

const OWN_PAGE = "http://127.0.0.1:5984/_utils/";
const BOUNDARY = "form";

interface Field {
  readonly name: string;
  readonly value: string;
  readonly file?: { readonly name: string; readonly type: string };
}

function form(...fields: readonly Field[]) {
  const parts = fields.map(({ name, value, file }) => {
    const disposition = `Content-Disposition: form-data; name="${name}"`;
    const head =
      file === undefined
        ? disposition
        : `${disposition}; filename="${file.name}"\r\nContent-Type: ${file.type}`;
    return `--${BOUNDARY}\r\n${head}\r\n\r\n${value}\r\n`;
  });
  return {
    body: `${parts.join("")}--${BOUNDARY}--\r\n`,
    headers: { Referer: OWN_PAGE, "Content-Type": `multipart/form-data; boundary=${BOUNDARY}` },
  };
}

function file(name: string, value: string): Field {
  return { name: "_attachments", value, file: { name, type: "text/plain" } };
}

async function openWithOthers({ ask }: Asked): Promise<string> {
  const body = { n: 1, _attachments: { old: { content_type: "a/b", data: "AAEC" } } };
  return (await ask("PUT /films/a", { body })).json.rev;
}

describe("a form", () => {
  test("adds files to a document and keeps the existing ones", async () => {
    const api = await openFilms();
    const rev = await openWithOthers(api);
    const sent = form({ name: "_rev", value: rev }, file("odd näme.txt", "hello"), file("x", "y"));
    const answer = await api.ask("POST /films/a", sent);
    expect(answer).toMatchObject({ status: 201, json: { ok: true, id: "a" } });
    expect(answer.headers.ETag).toBe(`"${answer.json.rev}"`);
    const { _attachments: attachments, ...document } = (await api.ask("GET /films/a")).json;
    expect(document).toEqual({ _id: "a", _rev: answer.json.rev, n: 1 });
    expect(Object.keys(attachments).sort()).toEqual(["odd näme.txt", "old", "x"]);
    expect((await api.ask("GET /films/a/odd%20n%C3%A4me.txt")).text).toBe("hello");
  });

  test("creates a document with files", async () => {
    const { ask } = await openFilms();
    const sent = form({ name: "_doc", value: '{"x":1.0}' }, file("f", "bytes"));
    expect((await ask("POST /films/new", sent)).status).toBe(201);
    expect((await ask("GET /films/new")).text).toContain('"x":1.0');
    expect((await ask("GET /films/new/f")).text).toBe("bytes");
  });

  test("replaces a file that has the same name", async () => {
    const api = await openFilms();
    const rev = await openWithOthers(api);
    await api.ask("POST /films/a", form({ name: "_rev", value: rev }, file("old", "new")));
    expect((await api.ask("GET /films/a/old")).text).toBe("new");
  });

  test("is refused with a conflict if it contains an old revision", async () => {
    const api = await openFilms();
    const rev = await openWithOthers(api);
    await api.ask("PUT /films/a", { body: { _rev: rev } });
    const answer = await api.ask("POST /films/a", form({ name: "_rev", value: rev }));
    expect(answer.status).toBe(409);
  });

  testRows(
    FILMS,
    [
      {
        name: "requires a document id",
        ask: "POST /films/a",
        ...form(file("f", "x")),
        ...refusal(400, "bad_request", "The form has neither a field `_doc` nor `_rev`"),
      },
      {
        name: "requires a valid revision",
        ask: "POST /films/a",
        ...form({ name: "_rev", value: "zz" }),
        ...refusal(400, "bad_request", "Invalid rev format"),
      },
      {
        name: "requires a JSON document",
        ask: "POST /films/a",
        ...form({ name: "_doc", value: "{" }),
        status: 400,
      },
      {
        name: "is accepted from a page of this server",
        ask: "POST /films/a",
        ...refusal(400, "bad_request", "Referer header required."),
      },
      {
        name: "is refused from a foreign page",
        ask: "POST /films/a",
        headers: { Referer: "http://evil.example/" },
        status: 403,
        has: { error: "forbidden" },
        differs: "Tandem refuses every change requested by a foreign page, in any form",
      },
      {
        name: "requires a form",
        ask: "POST /films/a",
        headers: { Referer: OWN_PAGE, "Content-Type": "application/json" },
        ...refusal(415, "bad_content_type", "Content-Type must be multipart/form-data"),
      },
      {
        name: "requires a boundary",
        ask: "POST /films/a",
        headers: { Referer: OWN_PAGE, "Content-Type": "multipart/form-data" },
        ...refusal(400, "bad_request", "The Content-Type multipart/form-data has no boundary"),
      },
    ],
    { onlyHere: "A form has to come from a page of the same host." },
  );
});
