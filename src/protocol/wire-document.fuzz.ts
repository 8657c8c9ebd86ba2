import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, Utf8Text, Utf8Writer, utf8Decode, utf8Encode } from "../base/index.ts";
import {
  inlineBytes,
  parseWireDocument,
  type RenderedDocument,
  renderWireDocument,
  type WireAttachment,
  wireDocumentPieces,
  writeWireDocument,
} from "./wire-document.ts";

/** Objects without protocol members, with white space wherever it is allowed. */
const body = fc
  .tuple(
    fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue()),
    fc.constantFrom(undefined, 1, "\t"),
    fc.constantFrom("", " ", "\n\t", "\r\n"),
  )
  .filter(([members]) => !Object.keys(members).some((name) => name.startsWith("_")))
  .map(([members, space, around]) => around + JSON.stringify(members, null, space) + around);

/** Attachments with distinct names, some with inline bytes. */
const attachments = fc
  .uniqueArray(
    fc.string({ minLength: 1 }).map((name) => `a${name}`),
    { maxLength: 3 },
  )
  .chain((names) => fc.tuple(...names.map(attachment)));

function attachment(name: string): fc.Arbitrary<WireAttachment> {
  const data = fc.uint8Array({ maxLength: 20 });
  return fc.record({
    name: fc.constant(name),
    content: fc.oneof(
      fc.constantFrom({ kind: "stub" } as const, { kind: "follows" } as const),
      data.map((bytes) => ({ kind: "inline", data: bytes }) as const),
    ),
    contentType: fc.constantFrom(undefined, "text/plain"),
    revisionPosition: fc.constantFrom(undefined, 1),
    digest: fc.constantFrom(undefined, "md5-abc"),
    length: fc.constantFrom(undefined, 3),
    encoding: fc.constantFrom(undefined, "gzip"),
    encodedLength: fc.constant(undefined),
  });
}

const rendered = fc.record({
  id: fc.string({ unit: "grapheme", minLength: 1 }),
  revision: fc.constant("2-b"),
  deleted: fc.boolean(),
  body,
  revisions: fc.constant({ start: 2, hashes: ["b", "a"] }),
  attachments,
});

function renderedText(document: Omit<RenderedDocument, "body"> & { body: string }): string {
  return renderWireDocument({ ...document, body: Utf8Text.of(document.body) });
}

test("a document written from bytes equals the one rendered from text", () => {
  fc.assert(
    fc.property(rendered, (document) => {
      const writer = new Utf8Writer(0);
      const body = Utf8Text.encoded(utf8Encode(document.body));
      writeWireDocument(writer, { ...document, body });
      expect(utf8Decode(writer.finish())).toBe(renderedText(document));
    }),
  );
});

test("a document forwarded in pieces equals the one rendered from text", () => {
  fc.assert(
    fc.property(rendered, fc.array(fc.nat(7), { minLength: 1 }), (document, sizes) => {
      const bytes = utf8Encode(document.body);
      const pieces: Uint8Array[] = [];
      let begin = 0;
      for (const size of sizes) {
        pieces.push(bytes.subarray(begin, begin + size));
        begin = Math.min(bytes.length, begin + size);
      }
      const body = Utf8Text.inPieces([...pieces, bytes.subarray(begin)]);
      const passedOn = utf8Decode(concatBytes(wireDocumentPieces({ ...document, body })));
      expect(passedOn).toBe(renderedText(document));
    }),
  );
});

test("parsing a rendered document returns the original", () => {
  fc.assert(
    fc.property(rendered, (document) => {
      const parsed = parseWireDocument(renderedText(document));
      expect(JSON.parse(parsed.body.text)).toEqual(JSON.parse(document.body));
      const { body: _, attachments: __, ...others } = document;
      expect(parsed).toMatchObject(others);
    }),
  );
});

test("attachments keep their bytes and descriptions", () => {
  fc.assert(
    fc.property(rendered, (document) => {
      const text = renderedText(document);
      const read = parseWireDocument(text);
      expect(read.attachments.map(contentOf)).toEqual(document.attachments.map(contentOf));
      expect(JSON.parse(text)._attachments ?? {}).toEqual(describedAll(document.attachments));
      // The parsed document can be rendered again, with the same result.
      const { id = "", ...rest } = read;
      expect(JSON.parse(renderWireDocument({ id, ...rest }))).toEqual(JSON.parse(text));
    }),
  );
});

function contentOf({ name, content }: WireAttachment): unknown {
  return [name, content.kind, content.kind === "inline" && inlineBytes(content)];
}

function describedAll(all: readonly WireAttachment[]): unknown {
  return Object.fromEntries(
    all.map(({ name, content, contentType, revisionPosition, digest, length, encoding }) => {
      const data = content.kind === "inline" && Buffer.from(inlineBytes(content) ?? []);
      const form = data ? { data: data.toString("base64") } : { length, [content.kind]: true };
      const described = { content_type: contentType, revpos: revisionPosition, digest };
      return [name, JSON.parse(JSON.stringify({ ...described, ...form, encoding }))];
    }),
  );
}
