/**
 * Checks that the functions of a design document's views compile (`couch_mrview:validate`). Tandem
 * runs these functions only for `filter=_view`.
 */
import { randomHex, type Utf8Text } from "../base/index.ts";
import { type Refusal, SandboxError, type Share } from "../databases/index.ts";
import type { DesignFunctions } from "./design-functions.ts";
import type { DesignOutline } from "./design-outline.ts";

interface ViewFunction {
  readonly view: string;
  readonly kind: "map" | "reduce";
}

/**
 * Yields the view functions given as source code, or none if the language is not JavaScript. Omits
 * names of CouchDB's built-in functions.
 */
async function* viewFunctions(design: DesignOutline): AsyncGenerator<ViewFunction, void> {
  const isJavascript = (await design.member("language"))?.isString("javascript") ?? true;
  const views = await design.member("views");
  if (!isJavascript || views === undefined) return;
  for (const { name: view, value } of views.eachValue()) {
    if (view === "lib") continue;
    yield { view, kind: "map" };
    const reduce = value.member("reduce")?.string;
    if (reduce !== undefined && !reduce.startsWith("_")) yield { view, kind: "reduce" };
  }
}

/**
 * Returns CouchDB's error for the first function that does not compile, or null if all functions
 * do.
 */
export async function compilationFault(
  { runtime, sandbox, timeoutMs }: DesignFunctions,
  {
    body,
    design,
    share,
    signal,
  }: {
    readonly body: Utf8Text;
    readonly design: DesignOutline;
    readonly share: Share;
    readonly signal: AbortSignal | undefined;
  },
): Promise<Refusal | null> {
  const codeId = `unwritten ${randomHex(runtime.random)}`;
  for await (const { view, kind } of viewFunctions(design)) {
    const path = ["views", view, kind];
    try {
      // A call with an empty list of runs compiles the code without running it.
      await sandbox.call({
        codeId,
        code: [body.bytes],
        kind: "view",
        path,
        runs: [],
        shared: "[]",
        timeoutMs,
        share,
        signal,
      });
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      const where = `Compilation of the ${kind} function in the '${view}' view failed: `;
      const isUncompiled = error.error === "compilation_error";
      return { error: error.error, reason: `${isUncompiled ? where : ""}${error.reason}` };
    }
  }
  return null;
}
