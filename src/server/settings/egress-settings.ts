/**
 * The servers to which replications are allowed to connect, and the addresses used for these
 * servers.
 */
import {
  type ConnectTo,
  EGRESS_RULE_FORMS,
  type EgressRule,
  EgressRules,
  parseConnectTo,
  parseEgressRule,
} from "../../host/index.ts";
import { listed, type Parsed, type Setting, type SettingTexts, sectionOf } from "./settings.ts";

const EGRESS_SECTION = "replicator.egress";

const CONNECT_TO = sectionOf("replicator").parsed<readonly ConnectTo[]>("connect_to", {
  default: [],
  defaultWords: "none",
  meaning:
    "comma-separated `host:port:target_host:target_port`: connections to `host` (or all of `*.example.com`) are made to `target_host`, without a change of `Host`, TLS name or replication id; ignored with a proxy",
  parse: (text) =>
    parseList(
      text,
      parseConnectTo,
      "host:port:target_host:target_port, such as *.example.com:443:10.0.0.5:8443 or a.example:443:[fd00::1]:443",
    ),
});

export const EGRESS_SETTINGS = {
  connectTo: CONNECT_TO,
  allow: rules("allow", "rules for allowed servers; empty: all servers that `deny` does not match"),
  deny: rules("deny", "rules that deny servers"),
};

/**
 * Returns a function that returns the current rules. They are the same object until one of the
 * texts changes.
 */
export function egressRules(texts: SettingTexts): () => EgressRules {
  const { allow, deny } = EGRESS_SETTINGS;
  return derived(
    () => [texts.get(EGRESS_SECTION, "allow"), texts.get(EGRESS_SECTION, "deny")],
    ([allowed, denied]) => new EgressRules(allow.read(allowed), deny.read(denied)),
  );
}

/**
 * Returns a function that returns the current overrides. They are the same array until the text
 * changes.
 */
export function connectTo(texts: SettingTexts): () => readonly ConnectTo[] {
  return derived(
    () => [texts.get("replicator", "connect_to")],
    ([text]) => CONNECT_TO.read(text),
  );
}

/** Memoizes `make` for the most recently read texts. */
function derived<T>(
  read: () => readonly (string | undefined)[],
  make: (texts: readonly (string | undefined)[]) => T,
): () => T {
  let known: { readonly texts: readonly (string | undefined)[]; readonly made: T } | undefined;
  return () => {
    const texts = read();
    if (known === undefined || known.texts.some((text, index) => text !== texts[index])) {
      known = { texts, made: make(texts) };
    }
    return known.made;
  };
}

function rules(key: string, meaning: string): Setting<readonly EgressRule[]> {
  return sectionOf(EGRESS_SECTION).parsed<readonly EgressRule[]>(key, {
    default: [],
    defaultWords: "none",
    meaning,
    parse: (text) => parseList(text, parseEgressRule, EGRESS_RULE_FORMS),
  });
}

function parseList<T>(
  text: string,
  parse: (item: string) => T | undefined,
  expected: string,
): Parsed<readonly T[]> {
  const value: T[] = [];
  for (const item of listed(text)) {
    const parsed = parse(item);
    if (parsed === undefined) return { expected, at: item };
    value.push(parsed);
  }
  return { value };
}
