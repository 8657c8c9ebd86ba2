/** Arguments for functions of design documents. */
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

/**
 * Maximum length of an argument that is joined with others; longer arguments are passed separately.
 */
const LONG_BYTES = 65_536;

/** A document for a function or selector, rendered on demand. */
export interface SandboxArgument {
  /** Approximate length in bytes. */
  readonly length: number;
  text(): JsonText;
  /** Returns the text as pieces that mostly share existing memory. */
  pieces(): LongText;
}

export const NULL_ARGUMENT: SandboxArgument = {
  length: 0,
  text: () => "null",
  pieces: () => [utf8Encode("null")],
};

/** Returns the argument for a stored document with its revisions. */
export function storedArgument(document: Document): SandboxArgument {
  return documentArgument(document, { revisions: true });
}

/** Returns the argument for a stored document, rendered with `options`. */
export function documentArgument(document: Document, options: RenderOptions = {}): SandboxArgument {
  return {
    length: document.body.length,
    text: () => renderStoredDocument(document, options),
    pieces: () => storedDocumentPieces(document, options),
  };
}

/** Returns the argument for a document that has not been written yet. */
export function newArgument(document: RenderedDocument): SandboxArgument {
  return {
    length: document.body.length,
    text: () => renderWireDocument(document),
    pieces: () => wireDocumentPieces(document),
  };
}

/** Joins the leading arguments of one run, or passes them separately if they are long. */
export function sandboxRun(parts: readonly SandboxArgument[]): SandboxCall["runs"][number] {
  let byteCount = 0;
  for (const { length } of parts) byteCount += length;
  return byteCount > LONG_BYTES
    ? parts.map((part) => part.pieces())
    : `[${parts.map((part) => part.text()).join(",")}]`;
}
