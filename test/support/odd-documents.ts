/**
 * Documents that are difficult for replicators, and functions that create these documents on any
 * server.
 */
import type { Answer } from "./open-process.ts";

type Call = (method: string, path: string, body?: unknown) => Promise<Answer>;

/** Ids with every kind of special character. Each id must arrive unchanged. */
export const ODD_IDS = [
  "a b",
  "a+b",
  "a/b/c",
  "a%2Fb",
  "a?b=c&d#e",
  'quote"s and \\ slashes',
  "ünïcödé 漢字 🎬",
  "tab\tand newline\n",
  "http://example.org/x",
  "..",
  "@:;,=!*'()$",
  "[1]{2}|^~`<>",
];

/**
 * Fills an existing database with documents: one with a conflict, a deleted one, one with an
 * updated attachment, a design document, and documents with odd ids.
 */
export async function writeOddDocuments(
  call: Call,
  database: string,
  {
    ids = ODD_IDS,
    textType = "text/plain",
  }: {
    readonly ids?: readonly string[];
    /**
     * Content type of the text attachments. Servers compress attachments of this type when they
     * store them.
     */
    readonly textType?: string;
  } = {},
): Promise<void> {
  const put = async (id: string, body: unknown): Promise<string> => {
    const answer = await call("PUT", `/${database}/${encodeURIComponent(id)}`, body);
    if (answer.status >= 300) throw new Error(`${id}: ${JSON.stringify(answer.body)}`);
    return answer.body.rev;
  };
  // The documents are written in bulk, because `..` in a path would be resolved.
  const docs = ids.map((id) => ({
    _id: id,
    text: `body of ${id}`,
    _attachments: { "a/b c": { content_type: textType, data: "AAEC" } },
  }));
  const odd = await call("POST", `/${database}/_bulk_docs`, { docs });
  if (odd.status !== 201) throw new Error(JSON.stringify(odd.body));

  const first = await put("conflict", { side: "left" });
  await put("conflict", { _rev: first, side: "left", more: 1 });
  const hash = first.split("-")[1] as string;
  const other = { start: 2, ids: ["ffffffffffffffffffffffffffffffff", hash] };
  const graft = await call("POST", `/${database}/_bulk_docs`, {
    new_edits: false,
    docs: [
      {
        _id: "conflict",
        _rev: "2-ffffffffffffffffffffffffffffffff",
        _revisions: other,
        side: "right",
      },
    ],
  });
  if (graft.status !== 201) throw new Error(JSON.stringify(graft.body));

  const doomed = await put("deleted", { soon: "gone" });
  await call("DELETE", `/${database}/deleted?rev=${doomed}`);

  const plain = Buffer.from("first bytes").toString("base64");
  const attached = await put("attached", {
    _attachments: {
      "note.txt": { content_type: textType, data: plain },
      "kept ü.bin": { content_type: "application/octet-stream", data: "AAECAw==" },
    },
  });
  await put("attached", {
    _rev: attached,
    _attachments: {
      "note.txt": {
        content_type: textType,
        data: Buffer.from("second bytes").toString("base64"),
      },
      "kept ü.bin": { stub: true },
    },
  });
  await call("PUT", `/${database}/_design/films`, {
    views: { years: { map: "function (doc) { emit(doc.year); }" } },
    filters: { recent: "function (doc, req) { return doc.year > 2000; }" },
  });
}

/** A body that is preserved byte for byte between databases of this program. */
export const EXACT_BODY =
  '{"big":12345678901234567890,"one":1.0,"hundred":1e2,"zero":-0,"tail":0.1000,"nested":{"__proto__":{"x":1},"constructor":{"y":2},"list":[1.0,{"z":-0}]},"text":"\\u00e9\\ud83c\\udfac/"}';
