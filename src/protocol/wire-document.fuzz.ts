import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, Utf8Text, Utf8Writer, utf8Decode, utf8Encode } from "../base/index.ts";
import {
  parseWireDocument,
  type RenderedDocument,
  renderWireDocument,
  wireDocumentPieces,
  writeWireDocument,
} from "./wire-document.ts";

/** Objects without members of the protocol's, with white space where it is allowed. */
const body = fc
  .tuple(
    fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue()),
    fc.constantFrom(undefined, 1, "\t"),
    fc.constantFrom("", " ", "\n\t", "\r\n"),
  )
  .filter(([members]) => !Object.keys(members).some((name) => name.startsWith("_")))
  .map(([members, space, around]) => around + JSON.stringify(members, null, space) + around);

const rendered = fc.record({
  id: fc.string({ unit: "grapheme", minLength: 1 }),
  revision: fc.constant("2-b"),
  deleted: fc.boolean(),
  body,
  revisions: fc.constant({ start: 2, hashes: ["b", "a"] }),
});

function renderedText(document: Omit<RenderedDocument, "body"> & { body: string }): string {
  return renderWireDocument({ ...document, body: Utf8Text.of(document.body) });
}

test("a document that is written from its bytes is the one that is rendered from its text", () => {
  fc.assert(
    fc.property(rendered, (document) => {
      const writer = new Utf8Writer(0);
      const body = Utf8Text.encoded(utf8Encode(document.body));
      writeWireDocument(writer, { ...document, body });
      expect(utf8Decode(writer.finish())).toBe(renderedText(document));
    }),
  );
});

test("so is one that is passed on in the pieces in which its bytes are", () => {
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

test("what is rendered is parsed as what it was", () => {
  fc.assert(
    fc.property(rendered, (document) => {
      const parsed = parseWireDocument(renderedText(document));
      expect(JSON.parse(parsed.body.text)).toEqual(JSON.parse(document.body));
      const { body: _, ...others } = document;
      expect(parsed).toMatchObject(others);
    }),
  );
});
