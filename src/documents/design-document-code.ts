/**
 * Checks whether the functions of a design document's views compile (`couch_mrview:validate`). Here only `filter=_view`
 * runs them.
 */
import type { JsonText } from "../base/index.ts";
import { type Refusal, SandboxError } from "../databases/index.ts";
import type { DesignFunctions } from "./design-functions.ts";

export interface ViewFunction {
  readonly view: string;
  readonly kind: "map" | "reduce";
}

/** The functions of a well-formed design document, parsed, that are code: no names of CouchDB's own, and no other language. */
export function viewFunctions({
  language = "javascript",
  views = {},
}: Readonly<Record<string, unknown>>): ViewFunction[] {
  if (language !== "javascript") return [];
  const named = Object.entries(views as Record<string, { map: string; reduce?: string }>);
  return named.flatMap(([view, { reduce }]): ViewFunction[] => {
    if (view === "lib") return [];
    const isCode = reduce !== undefined && !reduce.startsWith("_");
    const map = { view, kind: "map" } as const;
    return isCode ? [map, { view, kind: "reduce" }] : [map];
  });
}

/** What CouchDB says of the first of these that does not; null when all of them do. */
export async function compilationFault(
  { sandbox, timeoutMs }: Pick<DesignFunctions, "sandbox" | "timeoutMs">,
  body: JsonText,
  functions: readonly ViewFunction[],
): Promise<Refusal | null> {
  const codeId = `unwritten ${body}`;
  for (const { view, kind } of functions) {
    const path = ["views", view, kind];
    try {
      // Without a run it is only compiled.
      await sandbox.call({
        codeId,
        code: body,
        kind: "view",
        path,
        runs: [],
        shared: "[]",
        timeoutMs,
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
