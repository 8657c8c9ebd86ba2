/** `[replicator.egress]`: which servers replications may connect to. */
import {
  EGRESS_RULE_FORMS,
  type EgressRule,
  EgressRules,
  parseEgressRule,
} from "../../host/index.ts";
import { listSetting, type Setting, type SettingTexts, unusable } from "./settings.ts";

const EGRESS_SECTION = "replicator.egress";

const ALLOW = rulesSetting("allow");
const DENY = rulesSetting("deny");

export const EGRESS_SETTINGS: readonly Setting<unknown>[] = [ALLOW, DENY];

/** The rules of the present; the same object until one of the texts changes. */
export function egressRules(texts: SettingTexts): () => EgressRules {
  let known: { readonly texts: readonly unknown[]; readonly rules: EgressRules } | undefined;
  return () => {
    const allow = texts.get(EGRESS_SECTION, ALLOW.key);
    const deny = texts.get(EGRESS_SECTION, DENY.key);
    if (known === undefined || known.texts[0] !== allow || known.texts[1] !== deny) {
      known = { texts: [allow, deny], rules: new EgressRules(ALLOW.read(allow), DENY.read(deny)) };
    }
    return known.rules;
  };
}

function rulesSetting(key: string): Setting<readonly EgressRule[]> {
  const place = { section: EGRESS_SECTION, key };
  const { read } = listSetting(EGRESS_SECTION, key, []);
  return {
    ...place,
    read: (text) =>
      read(text).map((item) => {
        const rule = parseEgressRule(item);
        if (rule !== undefined) return rule;
        throw unusable(place, item, EGRESS_RULE_FORMS);
      }),
  };
}
