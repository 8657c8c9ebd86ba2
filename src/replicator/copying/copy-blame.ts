/**
 * Decides who is to blame for an error of a server or a broken connection: the document of the request, or the server.
 *
 * The document is to blame when the server, asked right afterwards, does work of the same kind that has nothing to do
 * with the document: the control. Some troubles are invisible to a control, such as validation functions that do not
 * run. So there is an allowance: each document that is passed over takes one from it, and each that succeeds adds one.
 * When the allowance is used up, the server is in trouble as a whole, and the run ends as when a server is away.
 */
import { errorCode, OperationalError } from "../../base/index.ts";
import { type Endpoint, EndpointError, type WriteFailure } from "../endpoints/endpoint.ts";
import { suspicionOf } from "../endpoints/suspicion.ts";
import { describeFailure } from "../failures/failure.ts";

/** Documents that may be passed over before any has succeeded: what a list of failures gets from a server in trouble, at each start. */
const ALLOWANCE_FIRST = 5;
/** Documents that may be passed over in a row: such as were written together are often damaged, or refused, together. */
const ALLOWANCE_MAX = 100;

/** What the control reads, and as a `_local` document writes. */
const CONTROL_ID = "tandem-control";

/** Answers to who may not do what was asked. */
const FORBIDDEN: ReadonlySet<number> = new Set([401, 403, 405]);

export class Blame {
  readonly #control: (signal: AbortSignal) => Promise<void>;
  #allowance = ALLOWANCE_FIRST;

  private constructor(control: (signal: AbortSignal) => Promise<void>) {
    this.#control = control;
  }

  /** For documents that are read. A source that answers for nothing else does not say that it lacks a document, either. */
  static ofSource(source: Endpoint): Blame {
    const nothing = { id: CONTROL_ID, revision: `1-${"0".repeat(32)}`, ancestors: [] };
    return new Blame(async (signal) => {
      await source.info(signal);
      await source.readRevision(nothing, async () => {}, signal);
    });
  }

  /** For documents that are written. A target that can write nothing, because its disk is full, writes no `_local` document. */
  static ofTarget(target: Endpoint): Blame {
    return new Blame(async (signal) => {
      try {
        const known = await target.readLocal(CONTROL_ID, signal);
        await target.writeLocal(CONTROL_ID, "{}", known?.revision, signal);
      } catch (error) {
        const status = error instanceof EndpointError ? error.answer?.status : undefined;
        if (status === undefined || !FORBIDDEN.has(status)) throw error;
        // Who may write documents need not be allowed to write these.
        await target.info(signal);
      }
    });
  }

  /** The server did for so many documents what it was asked to. */
  succeeded(count: number): void {
    this.#allowance = Math.min(ALLOWANCE_MAX, this.#allowance + count);
  }

  /** Throws `error`, or if there is none what the control met, when the server fails for the control, too. */
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
   * What is to be listed of a document for which the server failed; throws its `error` when the server is to blame. A document
   * that is listed already makes no list longer.
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
