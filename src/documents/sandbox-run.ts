/** The arguments of functions of design documents. */
import { type JsonText, type LongText, utf8Encode } from "../base/index.ts";
import type { Document, SandboxCall } from "../databases/index.ts";
import {
  type RenderedDocument,
  renderWireDocument,
  wireDocumentPieces,
} from "../protocol/index.ts";
import {
  type RenderOptions,
  renderStoredDocument,
  storedDocumentPieces,
} from "./stored-document.ts";

/** Longer arguments are handed over each by itself. */
const LONG_BYTES = 65_536;

/** A document for a function or a selector, which is made when it is needed. */
export interface SandboxArgument {
  /** Nearly, in bytes. */
  readonly length: number;
  text(): JsonText;
  /** The same, of whose bytes most are those that are there. */
  pieces(): LongText;
}

/** No document. */
export const NULL_ARGUMENT: SandboxArgument = {
  length: 0,
  text: () => "null",
  pieces: () => [utf8Encode("null")],
};

/** A document that is stored, with its revisions. */
export function storedArgument(document: Document): SandboxArgument {
  return documentArgument(document, { revisions: true });
}

/** The same, with what else is asked for. */
export function documentArgument(document: Document, options: RenderOptions = {}): SandboxArgument {
  return {
    length: document.body.length,
    text: () => renderStoredDocument(document, options),
    pieces: () => storedDocumentPieces(document, options),
  };
}

/** A document that is yet to be written. */
export function newArgument(document: RenderedDocument): SandboxArgument {
  return {
    length: document.body.length,
    text: () => renderWireDocument(document),
    pieces: () => wireDocumentPieces(document),
  };
}

/** The first arguments of one run. */
export function sandboxRun(parts: readonly SandboxArgument[]): SandboxCall["runs"][number] {
  let byteCount = 0;
  for (const { length } of parts) byteCount += length;
  return byteCount > LONG_BYTES
    ? parts.map((part) => part.pieces())
    : `[${parts.map((part) => part.text()).join(",")}]`;
}
