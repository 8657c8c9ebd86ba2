/**
 * Decides whether an error response or broken connection is due to the document in the request, or
 * to the server.
 *
 * The document is responsible if the server then succeeds at the control request: a similar request
 * for an unrelated document. Some failures, such as those of validation functions, do not affect
 * control requests, so that every document might be skipped. An allowance therefore limits skipped
 * documents: each skipped document reduces it by one, and each success increases it by one. When
 * the allowance is used up, the server is held responsible, and the run ends as if the server were
 * unreachable.
 */
import { errorCode, OperationalError } from "../../base/index.ts";
import { type Endpoint, EndpointError, type WriteFailure } from "../endpoints/endpoint.ts";
import { suspicionOf } from "../endpoints/suspicion.ts";
import { describeFailure } from "../failures/failure.ts";

/** Number of documents that a run is allowed to skip before its first success. */
const ALLOWANCE_FIRST = 5;
/**
 * Maximum number of documents skipped consecutively. Neighbouring documents are often damaged or
 * rejected together.
 */
const ALLOWANCE_MAX = 100;

/** Id of the document that the control request reads, or writes as a `_local` document. */
const CONTROL_ID = "tandem-control";

/** Status codes for missing permission. */
const FORBIDDEN: ReadonlySet<number> = new Set([401, 403, 405]);

export class FailureAttribution {
  readonly #control: (signal: AbortSignal) => Promise<void>;
  #allowance = ALLOWANCE_FIRST;

  private constructor(control: (signal: AbortSignal) => Promise<void>) {
    this.#control = control;
  }

  /**
   * Attributes failures of reads. The control request also asks for the database information,
   * because a source that cannot read any document might report all documents as missing.
   */
  static ofSource(source: Endpoint): FailureAttribution {
    const nothing = { id: CONTROL_ID, revision: `1-${"0".repeat(32)}`, ancestors: [] };
    return new FailureAttribution(async (signal) => {
      await source.info(signal);
      await source.reader.readRevision(nothing, async () => {}, signal);
    });
  }

  /**
   * Attributes failures of writes. The control request writes a `_local` document, because this
   * write also fails if, for example, the disk is full.
   */
  static ofTarget(target: Endpoint): FailureAttribution {
    return new FailureAttribution(async (signal) => {
      try {
        const known = await target.readLocal(CONTROL_ID, signal);
        await target.writeLocal(CONTROL_ID, "{}", known?.revision, signal);
      } catch (error) {
        const status = error instanceof EndpointError ? error.answer?.status : undefined;
        if (status === undefined || !FORBIDDEN.has(status)) throw error;
        // The account might be allowed to write all documents except `_local` documents, so try
        // another request.
        await target.info(signal);
      }
    });
  }

  /** Increases the allowance by `count`, the number of documents that the server has processed. */
  succeeded(count: number): void {
    this.#allowance = Math.min(ALLOWANCE_MAX, this.#allowance + count);
  }

  /**
   * Sends the control request. If the control request fails, throws `error` or, if `error` is
   * undefined, the error of the control request.
   */
  async examine(error: unknown, signal: AbortSignal): Promise<void> {
    try {
      await this.#control(signal);
    } catch (controlError) {
      signal.throwIfAborted();
      const isOperational = controlError instanceof OperationalError;
      if (!isOperational || errorCode(controlError) === "JOBS_HALTED") throw controlError;
      throw error ?? controlError;
    }
  }

  /**
   * Returns the failure to record for a skipped document. Throws `error` if the server is
   * responsible. Documents already on the list of failures do not reduce the allowance.
   */
  async passOver(
    error: unknown,
    isListed: boolean,
    signal: AbortSignal,
  ): Promise<Pick<WriteFailure, "status" | "error" | "reason">> {
    const suspicion = suspicionOf(error);
    if (suspicion === undefined) throw error;
    await this.examine(error, signal);
    if (!isListed && this.#allowance === 0) throw error;
    if (!isListed) this.#allowance--;
    if (suspicion.kind === "answered") return suspicion.answer;
    return { status: undefined, ...describeFailure(error) };
  }
}
