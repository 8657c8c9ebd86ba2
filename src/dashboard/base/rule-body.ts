/** Rules as JSON, for the form. Pure. */
import type { Rule } from "../../contract/index.ts";

/** What a new rule begins with. */
export const NEW_RULE = {
  source: { url: "https://a.example/" },
  target: { url: "https://b.example/{db}" },
  databases: ["*"],
  except: [],
  security: false,
  delete: "keep",
};

/** The members of a rule without what the node says beside them. */
export function bodyOf({
  name: _name,
  status: _status,
  ...body
}: Rule): Readonly<Record<string, unknown>> {
  return body;
}

/** The address of one side, as it was given; undefined: the rule does not say. */
export function addressOfSide(rule: Rule, side: "source" | "target"): string | undefined {
  const given = rule[side];
  if (typeof given === "string") return given;
  const url = (given as { readonly url?: unknown } | undefined)?.url;
  return typeof url === "string" ? url : undefined;
}
