/**
 * Formats text received from a server for display, without credentials and limited to a few
 * sentences. No other text of a peer is stored or shown.
 */
import type { SecretsInUse } from "../../../http-client/index.ts";
import { repeatsCredential, type ServerAnswer } from "../endpoint.ts";
import { parseObject } from "./json-answer.ts";

const LENGTH_MAX = 1_000;

export class ServerWords {
  readonly #secrets: SecretsInUse;

  constructor(secrets: SecretsInUse) {
    this.#secrets = secrets;
  }

  /** Formats a value in a response: a string unchanged, anything else as JSON. */
  shown(value: unknown): string {
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
    return this.#secrets.redact(text, LENGTH_MAX);
  }

  /** Throws an EndpointError for a value that is stored unchanged but repeats a credential. */
  refuseRepeated(value: unknown, what: string): void {
    if (this.#secrets.isRepeatedIn(value)) throw repeatsCredential(what);
  }

  /** Returns the error in a response, or its status. */
  answer(status: number, text: string): ServerAnswer {
    const { error, reason } = parseObject(text) ?? {};
    return {
      status,
      error: typeof error === "string" ? this.shown(error) : `http_${status}`,
      reason: typeof reason === "string" ? this.shown(reason) : "",
    };
  }
}
