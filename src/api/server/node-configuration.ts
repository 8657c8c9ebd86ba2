/**
 * `/_node/{name}/_config`: the configuration of the node, read and changed at runtime
 * (`chttpd_node`).
 */

import { jsonKind } from "../../base/index.ts";
import type { NodeSettings, SettingRow } from "../../contract/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { requireNode } from "../http/node-name.ts";
import { readJsonBody } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { CONFIGURATION, OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Maximum size of a value. Enough for a list of ten thousand origins. */
const VALUE_BYTES_MAX = 1_048_576;

/** The configuration of the node, without secrets. */
export interface NodeConfiguration {
  /** Returns known settings and explicitly set unknown ones, sorted by section and key. */
  settings(): readonly SettingRow[];
  /** All settings: explicit values, or else defaults. */
  sections(): ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Settings of a section; empty if the section is unknown. */
  section(section: string): ReadonlyMap<string, string>;
  /** The value in effect; undefined if it is not set and has no default. */
  get(section: string, key: string): string | undefined;
  /**
   * Sets a value. Returns the previous value, or an empty string. Throws CONFIG_INVALID, or a
   * ProtocolError 403.
   */
  set(
    section: string,
    key: string,
    text: string,
    options: { readonly persist: boolean },
  ): Promise<string>;
  /** Removes a value. Returns the previous value, if any. */
  delete(
    section: string,
    key: string,
    options: { readonly persist: boolean },
  ): Promise<string | undefined>;
  /**
   * Reloads the configuration files, in all processes of the data folder. Returns the changed
   * settings that take effect after a restart. Throws CONFIG_INVALID.
   */
  reload(): Promise<readonly string[]>;
}

export function nodeConfigurationRoutes(
  configuration: NodeConfiguration,
  nodeName: string,
): readonly Route[] {
  const here =
    (handle: (call: Call) => Promise<ApiResponse>) =>
    async (call: Call): Promise<ApiResponse> => {
      requireNode(parameter(call, "node"), nodeName);
      return handle(call);
    };
  const root = "/_node/{node}/_config";
  const key = `${root}/{section}/{key}`;
  return [
    defineRoute("GET", "/_tandem/settings", OPERATIONS, async () =>
      showSettings(configuration, nodeName),
    ),
    defineRoute(
      "GET",
      "/_node/{node}",
      OPERATIONS,
      here(async () => json(200, { name: nodeName })),
    ),
    defineRoute(
      "GET",
      root,
      CONFIGURATION,
      here(async () => showAll(configuration)),
    ),
    defineRoute(
      "POST",
      `${root}/_reload`,
      CONFIGURATION,
      here(() => reload(configuration)),
    ),
    defineRoute(
      "GET",
      `${root}/{section}`,
      CONFIGURATION,
      here((call) => showSection(configuration, call)),
    ),
    defineRoute(
      "GET",
      key,
      CONFIGURATION,
      here((call) => showValue(configuration, call)),
    ),
    defineRoute(
      "PUT",
      key,
      CONFIGURATION,
      here((call) => setValue(configuration, call)),
    ),
    defineRoute(
      "DELETE",
      key,
      CONFIGURATION,
      here((call) => deleteValue(configuration, call)),
    ),
  ];
}

function showSettings(configuration: NodeConfiguration, node: string): ApiResponse {
  const settings = configuration.settings();
  return json(200, { node, total_rows: settings.length, settings } satisfies NodeSettings);
}

async function showAll(configuration: NodeConfiguration): Promise<ApiResponse> {
  const sections = [...configuration.sections()].map(
    ([name, pairs]) => [name, Object.fromEntries(pairs)] as const,
  );
  return json(200, Object.fromEntries(sections));
}

async function showSection(configuration: NodeConfiguration, call: Call): Promise<ApiResponse> {
  return json(200, Object.fromEntries(configuration.section(parameter(call, "section"))));
}

async function showValue(configuration: NodeConfiguration, call: Call): Promise<ApiResponse> {
  const { section, key } = place(call);
  return json(200, configuration.get(section, key) ?? unknownValue());
}

async function setValue(configuration: NodeConfiguration, call: Call): Promise<ApiResponse> {
  const { section, key } = place(call);
  const text = await readJsonBody(call, VALUE_BYTES_MAX);
  if (jsonKind(text) !== "string") throw badRequest("expected a JSON string");
  const value = (JSON.parse(text) as string).trim();
  return json(200, await configuration.set(section, key, value, persistence(call)));
}

async function deleteValue(configuration: NodeConfiguration, call: Call): Promise<ApiResponse> {
  const { section, key } = place(call);
  return json(200, (await configuration.delete(section, key, persistence(call))) ?? unknownValue());
}

async function reload(configuration: NodeConfiguration): Promise<ApiResponse> {
  const waiting = await configuration.reload();
  const restart = waiting.length === 0 ? {} : { restart_required: waiting };
  return json(200, { ok: true, ...restart });
}

function place(call: Call): { readonly section: string; readonly key: string } {
  return { section: parameter(call, "section"), key: parameter(call, "key") };
}

function persistence(call: Call): { readonly persist: boolean } {
  return { persist: call.request.headers.get("x-couch-persist") !== "false" };
}

function unknownValue(): never {
  throw new ProtocolError(404, "not_found", "unknown_config_value");
}
