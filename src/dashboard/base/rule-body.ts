/** Rules as JSON, for the form. */
import type { Rule } from "../../contract/index.ts";

/** Initial content of a new rule. */
export const NEW_RULE = {
  source: { url: "https://a.example/" },
  target: { url: "https://b.example/{db}" },
  databases: ["*"],
  except: [],
  security: false,
  delete: "keep",
};

/** The members of a rule without those that the node adds. */
export function bodyOf({
  name: _name,
  status: _status,
  ...body
}: Rule): Readonly<Record<string, unknown>> {
  return body;
}

/** The address of one side as given, or `undefined` if the rule does not contain it. */
export function addressOfSide(rule: Rule, side: "source" | "target"): string | undefined {
  const given = rule[side];
  if (typeof given === "string") return given;
  const url = (given as { readonly url?: unknown } | undefined)?.url;
  return typeof url === "string" ? url : undefined;
}
