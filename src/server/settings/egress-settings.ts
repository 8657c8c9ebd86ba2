/** `[replicator.egress]`: servers to which replications may connect. */
import {
  EGRESS_RULE_FORMS,
  type EgressRule,
  EgressRules,
  parseEgressRule,
} from "../../host/index.ts";
import { listed, type Setting, type SettingTexts, sectionOf } from "./settings.ts";

const EGRESS_SECTION = "replicator.egress";

export const EGRESS_SETTINGS = {
  allow: rules("allow", "rules for allowed servers; empty: all servers that `deny` does not match"),
  deny: rules("deny", "rules that deny servers"),
};

/** The current rules; the same object until one of the texts changes. */
export function egressRules(texts: SettingTexts): () => EgressRules {
  let known: { readonly texts: readonly unknown[]; readonly rules: EgressRules } | undefined;
  return () => {
    const allow = texts.get(EGRESS_SECTION, "allow");
    const deny = texts.get(EGRESS_SECTION, "deny");
    if (known === undefined || known.texts[0] !== allow || known.texts[1] !== deny) {
      const { allow: allowed, deny: denied } = EGRESS_SETTINGS;
      const rules = new EgressRules(allowed.read(allow), denied.read(deny));
      known = { texts: [allow, deny], rules };
    }
    return known.rules;
  };
}

function rules(key: string, meaning: string): Setting<readonly EgressRule[]> {
  return sectionOf(EGRESS_SECTION).parsed<readonly EgressRule[]>(key, {
    default: [],
    defaultWords: "none",
    meaning,
    parse(text) {
      const value: EgressRule[] = [];
      for (const item of listed(text)) {
        const rule = parseEgressRule(item);
        if (rule === undefined) return { expected: EGRESS_RULE_FORMS, at: item };
        value.push(rule);
      }
      return { value };
    },
  });
}
