/**
 * Validation by design documents: their `validate_doc_update` functions run before a user's edit is
 * written, and the functions of a design document have to compile before it is written.
 *
 * The functions run in the sandbox, and a transaction cannot wait for the sandbox. A transaction
 * that contains an edit without a verdict therefore writes nothing and reports the missing
 * verdicts. The functions are then called, and the transaction is retried. A verdict is valid only
 * for the same design documents, security object and old revision. The writing transaction reads
 * all of these, so each edit was judged against the revision that it replaces.
 */
import {
  append,
  equalBytes,
  type JsonText,
  OperationalError,
  Utf8Text,
  Yielder,
} from "../base/index.ts";
import {
  type Attachment,
  type DatabaseHook,
  type Document,
  type DocumentEdit,
  type EditVerdict,
  type HookedDatabase,
  isDatabaseAdmin,
  type Refusal,
  type SandboxCall,
  SandboxError,
  type Share,
  shareOf,
  type WriteContext,
  type WriteValidation,
} from "../databases/index.ts";
import type { KeyValueStore, Transaction, TransactOptions } from "../kv/index.ts";
import {
  formatRevision,
  parseRevision,
  type RenderedDocument,
  renderWireDocument,
} from "../protocol/index.ts";
import type { DesignCode } from "./design-codes.ts";
import { compilationFault } from "./design-document-code.ts";
import { designDocumentFault } from "./design-document-fault.ts";
import type { DesignFunctions } from "./design-functions.ts";
import { DesignOutline } from "./design-outline.ts";
import { replicatedRevision } from "./document-edits.ts";
import { NULL_ARGUMENT, newArgument, sandboxRun, storedArgument } from "./sandbox-run.ts";

/**
 * Maximum number of attempts until every edit has a verdict. More than a few are needed only if
 * other writers change the same documents concurrently.
 */
const ATTEMPT_COUNT_MAX = 20;

/**
 * Rejects design documents of users who are not administrators of the database, and applies
 * validation functions to all other documents. Must be the last hook of every database, so that it
 * judges edits as changed by other hooks.
 */
export const VALIDATION_HOOK: DatabaseHook = {
  appliesTo: () => true,
  beforeWrite(tx, database, edit, context) {
    const { validation } = context;
    if (validation === undefined) return { edit };
    if (isDesignDocument(edit)) return judgeDesign(tx, database, edit, { ...context, validation });
    return validation.judge(tx, database, edit, context);
  },
};

async function judgeDesign(
  tx: Transaction,
  database: HookedDatabase,
  edit: DocumentEdit,
  context: WriteContext & { readonly validation: WriteValidation },
): Promise<EditVerdict> {
  if (!isDatabaseAdmin(await database.security(tx), context)) {
    const rejected = context.userName === null ? "unauthorized" : "forbidden";
    return { rejected, reason: "You are not a db or server admin." };
  }
  return context.validation.judge(tx, database, edit, context);
}

/** Validates users' edits, and runs the transaction that writes them. */
export async function transactValidated<T>(
  kv: KeyValueStore,
  functions: DesignFunctions,
  options: TransactOptions,
  body: (tx: Transaction, validation: WriteValidation) => Promise<T>,
): Promise<T> {
  const validation = new DocumentValidation(functions, options.signal);
  for (let attempt = 0; attempt < ATTEMPT_COUNT_MAX; attempt++) {
    try {
      return await kv.transact(async (tx) => {
        try {
          return await body(tx, validation);
        } finally {
          // Also required after an error, because an edit without a verdict might have caused the
          // error.
          validation.requireVerdicts(tx);
        }
      }, options);
    } catch (error) {
      if (!(error instanceof VerdictsMissing)) throw error;
      await validation.ask(error.questions);
    }
  }
  throw new OperationalError(
    "STORE_VALIDATION_UNSETTLED",
    "The documents kept changing while they were validated",
  );
}

type Question = EditQuestion | DesignQuestion;

/** An edit to be checked by the validation functions. */
interface EditQuestion {
  readonly kind: "edit";
  /** Identifies all inputs of the verdict, except the body. */
  readonly key: string;
  readonly body: Utf8Text;
  /** The new and the old document, rendered when the function is called. */
  readonly run: () => SandboxCall["runs"][number];
  readonly validators: readonly DesignCode[];
  readonly shared: JsonText;
  readonly share: Share;
}

/** A design document to be validated: its structure, and whether its functions compile. */
interface DesignQuestion {
  readonly kind: "design";
  readonly key: "design";
  /** Body of the design document, the only input of the verdict. */
  readonly body: Utf8Text;
  readonly share: Share;
}

/**
 * Known verdicts. Bodies are compared, and are not part of the map's keys: a body of megabytes
 * would be copied and hashed in every lookup.
 */
class Verdicts {
  readonly #byKey = new Map<string, { readonly body: Utf8Text; readonly verdict: Verdict }[]>();

  /** Returns the verdict, or `undefined` if it is not known yet. */
  get({ key, body }: Question): Verdict | undefined {
    return this.#byKey.get(key)?.find((known) => areSame(known.body, body))?.verdict;
  }

  set({ key, body }: Question, verdict: Verdict): void {
    const known = this.#byKey.get(key) ?? [];
    known.push({ body, verdict });
    this.#byKey.set(key, known);
  }
}

/** Compares bodies. In the next attempt, the body is usually the same object. */
function areSame(left: Utf8Text, right: Utf8Text): boolean {
  return left === right || equalBytes(left.bytes, right.bytes);
}

const LONG_BODY_BYTES = 65_536;
const UNJUDGED: EditVerdict = {
  rejected: "unjudged",
  reason: "The edit has not been validated yet",
};

/** Result of a validation: a refusal, or null if the edit is accepted. */
type Verdict = Refusal | null;

class VerdictsMissing extends Error {
  readonly questions: readonly Question[];

  constructor(questions: readonly Question[]) {
    super("Edits have not been validated yet");
    this.questions = questions;
  }
}

class DocumentValidation implements WriteValidation {
  readonly #functions: DesignFunctions;
  readonly #signal: AbortSignal | undefined;
  readonly #verdicts = new Verdicts();
  /**
   * Holds functions that have been read as an array, not as a promise. Callers therefore need not
   * await in the common case of a database without validation functions.
   */
  readonly #validators = new WeakMap<
    Transaction,
    readonly DesignCode[] | Promise<readonly DesignCode[]>
  >();
  readonly #missing = new WeakMap<Transaction, Question[]>();

  constructor(functions: DesignFunctions, signal: AbortSignal | undefined) {
    this.#functions = functions;
    this.#signal = signal;
  }

  judge(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): EditVerdict | Promise<EditVerdict> {
    if (isDesignDocument(edit)) {
      const share = shareOf(database.name, context.userName);
      return this.#verdict(tx, edit, { kind: "design", key: "design", body: edit.body, share });
    }
    const validators = this.#validators.get(tx);
    if (Array.isArray(validators) && validators.length === 0) return { edit };
    return this.#judgeByValidators(tx, database, edit, context);
  }

  async #judgeByValidators(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): Promise<EditVerdict> {
    const question = await this.#editQuestion(tx, database, edit, context);
    return this.#verdict(tx, edit, question);
  }

  #verdict(tx: Transaction, edit: DocumentEdit, question: Question | undefined): EditVerdict {
    if (question === undefined) return { edit };
    const verdict = this.#verdicts.get(question);
    if (verdict === undefined) {
      const missing = this.#missing.get(tx) ?? [];
      this.#missing.set(tx, [...missing, question]);
      // An edit without a verdict makes the transaction run again, so a long body is not written
      // now.
      return edit.body.length > LONG_BODY_BYTES ? UNJUDGED : { edit };
    }
    return verdict === null ? { edit } : { rejected: verdict.error, reason: verdict.reason };
  }

  async #editQuestion(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): Promise<EditQuestion | undefined> {
    const validators = await this.#validatorsOf(tx, database);
    if (validators.length === 0) return undefined;
    return editQuestion(tx, database, { edit, context, validators });
  }

  async #validatorsOf(tx: Transaction, database: HookedDatabase): Promise<readonly DesignCode[]> {
    const known = this.#validators.get(tx);
    if (known !== undefined) return known;
    const reading = readValidators(tx, database, this.#functions);
    this.#validators.set(tx, reading);
    const validators = await reading;
    this.#validators.set(tx, validators);
    return validators;
  }

  /** Throws VerdictsMissing if a written edit has no verdict. */
  requireVerdicts(tx: Transaction): void {
    const missing = this.#missing.get(tx);
    if (missing !== undefined) throw new VerdictsMissing(missing);
  }

  async ask(questions: readonly Question[]): Promise<void> {
    const edits: EditQuestion[] = [];
    for (const question of questions) {
      if (question.kind === "edit") edits.push(question);
      else this.#verdicts.set(question, await this.#judgeDesign(question));
    }
    await this.#askValidators(edits);
  }

  async #judgeDesign({ body, share }: DesignQuestion): Promise<Verdict> {
    const yielder = new Yielder(this.#functions.runtime.clock);
    const design = await DesignOutline.of(await body.bytesYielding(yielder), yielder);
    const reason = await designDocumentFault(design, yielder);
    if (reason !== undefined) return { error: "invalid_design_doc", reason };
    return compilationFault(this.#functions, { body, design, share, signal: this.#signal });
  }

  /**
   * Runs the validation functions of all design documents in turn, each on all edits that no
   * previous function refused.
   */
  async #askValidators(questions: readonly EditQuestion[]): Promise<void> {
    const [first] = questions;
    let open = questions;
    for (const validator of first?.validators ?? []) {
      const answers = await this.#run(validator, open);
      open = open.filter((question, index) => {
        const answer = answers[index] ?? null;
        if (answer !== null) this.#verdicts.set(question, answer);
        return answer === null;
      });
      if (open.length === 0) return;
    }
    for (const question of open) this.#verdicts.set(question, null);
  }

  async #run(validator: DesignCode, questions: readonly EditQuestion[]): Promise<Verdict[]> {
    const { sandbox, timeoutMs } = this.#functions;
    const { share, shared } = questions[0] as EditQuestion;
    try {
      return await sandbox.call({
        codeId: validator.codeId,
        code: validator.text,
        kind: "validate",
        path: ["validate_doc_update"],
        runs: questions.map(({ run }) => run()),
        shared,
        timeoutMs,
        share,
        signal: this.#signal,
      });
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      if (!error.isLimit || questions.length === 1) {
        return questions.map(() => ({ error: error.error, reason: error.reason }));
      }
      // The limit concerned one of several edits, so each edit is validated individually.
      const answers: Verdict[] = [];
      for (const question of questions) {
        append(answers, await this.#run(validator, [question]));
      }
      return answers;
    }
  }
}

/**
 * Reads the revisions of all design documents, so that a change of any of them conflicts with this
 * transaction.
 */
async function readValidators(
  tx: Transaction,
  database: HookedDatabase,
  { runtime, codes }: DesignFunctions,
): Promise<DesignCode[]> {
  const page = await database.allDocuments.page(tx, {
    startId: "_design/",
    endId: "_design0",
    inclusiveEnd: false,
  });
  const yielder = new Yielder(runtime.clock);
  const validators: DesignCode[] = [];
  for (const place of page.entries) {
    const validator = await codes.validator(tx, database, place, yielder);
    if (validator !== undefined) validators.push(validator);
  }
  return validators;
}

function isDesignDocument({ id }: DocumentEdit): boolean {
  return id.startsWith("_design/");
}

async function editQuestion(
  tx: Transaction,
  database: HookedDatabase,
  {
    edit,
    context,
    validators,
  }: {
    readonly edit: DocumentEdit;
    readonly context: WriteContext;
    readonly validators: readonly DesignCode[];
  },
): Promise<EditQuestion> {
  const { userName, roles, isAdmin } = context;
  const old = await oldDocument(tx, database, edit);
  const shownRoles = isAdmin && !roles.includes("_admin") ? ["_admin", ...roles] : roles;
  const user = JSON.stringify({ db: database.name, name: userName, roles: shownRoles });
  const shared = `[${user},${await database.security(tx)}]`;
  const codeIds = validators.map(({ codeId }) => codeId);
  const shown = newDocument(edit, old);
  const head = renderWireDocument({ ...shown, body: EMPTY_BODY });
  const key = JSON.stringify([head, old?.revision, codeIds, shared]);
  const oldArgument = old === undefined ? NULL_ARGUMENT : storedArgument(old);
  const run = () => sandboxRun([newArgument(shown), oldArgument]);
  const share = shareOf(database.name, context.userName);
  return { kind: "edit", key, body: edit.body, run, validators, shared, share };
}

const EMPTY_BODY = Utf8Text.of("{}");

/** Returns the leaf that the edit replaces, if any. */
async function oldDocument(
  tx: Transaction,
  database: HookedDatabase,
  edit: DocumentEdit,
): Promise<Document | undefined> {
  if (edit.mode === "interactive") {
    if (edit.parent === undefined) return undefined;
    return (await database.documents.readRevision(tx, edit.id, edit.parent))[0];
  }
  const { start, hashes } = edit.revisions;
  const path = hashes.map((hash, index) => formatRevision(start - index, hash));
  const leaves = new Set(
    (await database.documents.leaves(tx, edit.id)).map(({ revision }) => revision),
  );
  const ancestor = path.slice(1).find((revision) => leaves.has(revision));
  if (ancestor === undefined) return undefined;
  return (await database.documents.readRevision(tx, edit.id, ancestor))[0];
}

/**
 * Builds the new document as shown to validation functions. As in CouchDB, `_rev` is the replaced
 * revision for a user's edit, and the edit's own revision for a replicated edit.
 */
function newDocument(edit: DocumentEdit, old: Document | undefined): RenderedDocument {
  const stored = new Map(old?.attachments.map((attachment) => [attachment.name, attachment]));
  const revision = edit.mode === "interactive" ? edit.parent : replicatedRevision(edit);
  return {
    id: edit.id,
    revision,
    deleted: edit.deleted,
    body: edit.body,
    ...(revision === undefined ? {} : { revisions: revisionsOf(edit, revision) }),
    attachments: edit.attachments.map((attachment) => {
      const known: Partial<Attachment> =
        attachment.kind === "stub" ? (stored.get(attachment.name) ?? {}) : attachment.content;
      const contentType = attachment.kind === "stub" ? known.contentType : attachment.contentType;
      return {
        name: attachment.name,
        content: { kind: "stub" },
        contentType,
        revisionPosition: attachment.revisionPosition ?? known.revisionPosition,
        digest: known.digest,
        length: known.length,
        encoding: undefined,
        encodedLength: undefined,
      };
    }),
  };
}

function revisionsOf(
  edit: DocumentEdit,
  revision: string,
): { readonly start: number; readonly hashes: readonly string[] } {
  if (edit.mode === "replicated") return edit.revisions;
  const { generation = 0, hash = "" } = parseRevision(revision) ?? {};
  return { start: generation, hashes: [hash] };
}
