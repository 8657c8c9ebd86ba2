/**
 * Formats text received from a server for display, without credentials and limited to a few
 * sentences. Text of a peer is stored and shown only in this form.
 */
import type { SecretsInUse } from "../../../http-client/index.ts";
import { repeatsCredential, type ServerAnswer } from "../endpoint.ts";
import { parseObject } from "./json-answer.ts";

const LENGTH_MAX = 1_000;
/** Maximum number of characters quoted from a response in a reason. */
const DESCRIBED_LENGTH_MAX = 200;

export class ServerWords {
  readonly #secrets: SecretsInUse;

  constructor(secrets: SecretsInUse) {
    this.#secrets = secrets;
  }

  /** Formats a value in a response: a string unchanged, anything else as JSON. */
  shown(value: unknown): string {
    return this.#secrets.redact(textOf(value), LENGTH_MAX);
  }

  /**
   * Describes a response in one line: its status, followed by CouchDB's error and reason. If these
   * are missing, the status is followed by the beginning of the text.
   */
  described(status: number, text: string): string {
    const { error, reason } = parseObject(text) ?? {};
    const words = error === undefined ? text : `${textOf(error)}: ${textOf(reason)}`;
    const shown = this.#secrets.redact(words, DESCRIBED_LENGTH_MAX).replace(/\s+/g, " ").trim();
    if (shown === "") return String(status);
    return error === undefined ? `${status}: ${shown}` : `${status} ${shown}`;
  }

  /** Throws an EndpointError if `value`, which is stored unchanged, contains a credential. */
  refuseRepeated(value: unknown, what: string): void {
    if (this.#secrets.isRepeatedIn(value)) throw repeatsCredential(what);
  }

  /**
   * Returns the status, error and reason of a response. If the response has no error name, the name
   * is `http_` followed by the status.
   */
  answer(status: number, text: string): ServerAnswer {
    const { error, reason } = parseObject(text) ?? {};
    return {
      status,
      error: typeof error === "string" ? this.shown(error) : `http_${status}`,
      reason: typeof reason === "string" ? this.shown(reason) : "",
    };
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
